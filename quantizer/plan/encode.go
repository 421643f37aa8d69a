package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"qwb/quantizer/decision"
)

// Encode returns the file form. Equal plans give equal bytes.
func (p *Plan) Encode() ([]byte, error) {
	e := &encoder{}
	e.text("{\n")
	e.field("format", Format)
	if p.Options != nil {
		e.field("version", 1)
	} else {
		e.field("version", Version)
	}
	e.field("model", p.Model)
	if p.Imported != nil {
		e.field("imported", p.Imported)
	}
	data := p.Data
	if data.Paths == nil {
		data.Paths = []string{}
	}
	e.field("data", data)
	e.field("preprocess", p.Preprocess)
	e.field("samples", p.Samples)
	e.field("seed", p.Seed)
	if p.Ranges != "" {
		e.field("ranges", p.Ranges)
	}
	e.field("platform", p.Platform)
	e.field("profile", p.Profile)
	if p.Options != nil {
		e.options(p.Options)
	} else {
		e.field("target", p.Target)
		e.decisions(p)
	}
	if p.Verification != nil {
		e.field("verification", p.Verification)
	}
	e.list("warnings", len(p.Warnings), func(i int) { e.value(p.Warnings[i]) })
	if p.Options == nil {
		hash, err := p.nodesHash()
		if err != nil {
			return nil, err
		}
		e.field("nodes_sha256", hash)
	}
	e.schemes(p)
	e.list("nodes", len(p.Nodes), func(i int) { e.node(&p.Nodes[i]) })
	e.buf.Truncate(e.buf.Len() - len(",\n"))
	e.text("\n}\n")
	return e.buf.Bytes(), e.err
}

// decisions writes the list with one decision on a line, and what goes with it.
func (e *encoder) decisions(p *Plan) {
	e.list("decisions", len(p.Decisions), func(i int) { e.decision(&p.Decisions[i]) })
	steps := p.Steps
	if steps == nil {
		steps = []int{}
	}
	e.field("steps", steps)
	if len(p.Redo) > 0 {
		e.list("redo", len(p.Redo), func(i int) {
			e.text("[")
			for k := range p.Redo[i] {
				if k > 0 {
					e.text(",")
				}
				e.decision(&p.Redo[i][k])
			}
			e.text("]")
		})
	}
}

func (e *encoder) decision(d *decision.Decision) {
	b, err := d.Encode()
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("plan: %w", err)
	}
	e.buf.Write(b)
}

// options writes what version 1 has.
func (e *encoder) options(o *Options) {
	e.field("observers", o.Observers)
	if o.ReduceRange {
		e.field("reduce_range", true)
	}
	if o.PerTensor {
		e.field("per_tensor", true)
	}
	if o.Tuned != nil {
		e.field("tuned", o.Tuned)
	}
}

type encoder struct {
	buf bytes.Buffer
	err error
}

func (e *encoder) text(s string) { e.buf.WriteString(s) }

// value writes v as JSON on one line. encoding/json would replace bytes that are not UTF-8 and so change names.
func (e *encoder) value(v any) {
	if s, ok := v.(string); ok && !utf8.ValidString(s) && e.err == nil {
		e.err = fmt.Errorf("plan: name %q is not UTF-8", s)
	}
	enc := json.NewEncoder(&e.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		if e.err == nil {
			e.err = fmt.Errorf("plan: %w", err)
		}
		return
	}
	e.buf.Truncate(e.buf.Len() - 1) // the encoder's line end
}

func (e *encoder) field(name string, v any) {
	if s, bad := notUTF8(reflect.ValueOf(v)); bad && e.err == nil {
		e.err = fmt.Errorf("plan: %s: %q is not UTF-8: a plan, which is JSON, cannot hold it; give the file another name", name, s)
	}
	fmt.Fprintf(&e.buf, "  %q: ", name)
	e.value(v)
	e.text(",\n")
}

// list writes a list with one element per line.
func (e *encoder) list(name string, n int, element func(i int)) {
	fmt.Fprintf(&e.buf, "  %q: [", name)
	for i := range n {
		if i > 0 {
			e.text(",")
		}
		e.text("\n    ")
		element(i)
	}
	if n > 0 {
		e.text("\n  ")
	}
	e.text("],\n")
}

func (e *encoder) schemes(p *Plan) {
	names := make([]string, 0, len(p.Schemes))
	for n := range p.Schemes {
		names = append(names, n)
	}
	slices.Sort(names)
	e.text("  \"schemes\": {")
	for i, n := range names {
		if i > 0 {
			e.text(",")
		}
		e.text("\n    ")
		e.value(n)
		e.text(": ")
		e.value(p.Schemes[n])
	}
	if len(names) > 0 {
		e.text("\n  ")
	}
	e.text("},\n")
}

func (e *encoder) node(n *Node) {
	for _, s := range []string{n.Name, n.Op, n.Why, n.Fused} {
		if !utf8.ValidString(s) && e.err == nil {
			e.err = fmt.Errorf("plan: node name %q is not UTF-8", s)
		}
	}
	head := *n
	head.Slots = nil
	e.value(head)
	if len(n.Slots) == 0 {
		return
	}
	e.buf.Truncate(e.buf.Len() - 1) // the closing brace
	e.text(`,"slots":[`)
	for i := range n.Slots {
		if i > 0 {
			e.text(",")
		}
		e.text("\n      ")
		e.value(n.Slots[i])
	}
	e.text("]}")
}

// notUTF8 finds a string that JSON cannot hold in what a field of a plan is made of.
func notUTF8(v reflect.Value) (string, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return notUTF8(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if s, bad := notUTF8(v.Field(i)); bad {
				return s, true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if s, bad := notUTF8(v.Index(i)); bad {
				return s, true
			}
		}
	}
	return "", false
}
