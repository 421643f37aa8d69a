package decision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"qwb/internal/strictjson"
)

// By is who made a decision.
type By string

const (
	ByCalibrate By = "calibrate" // the options of qwb calibrate, and what an automatic choice chose
	ByTarget    By = "target"    // how operators are dispatched
	ByImport    By = "import"    // the quantized file that a plan was made from
	ByUser      By = "user"
	ByRecipe    By = "recipe"
	BySearch    By = "search"
	ByTune      By = "tune"
)

// Everyone lists who can make decisions.
var Everyone = []By{ByCalibrate, ByTarget, ByImport, ByUser, ByRecipe, BySearch, ByTune}

// Decision is one entry of a plan's list. In JSON its keys stand in the order of the fields, absent ones are left out.
type Decision struct {
	By     By              `json:"by"`
	Goal   string          `json:"goal,omitempty"`   // what a search was asked for: "nsr 0.01"
	Method string          `json:"method,omitempty"` // of tuning
	Params json.RawMessage `json:"params,omitempty"` // of the method
	// Select says what the decision is about. Without it a decision holds for the whole plan, as a default: decisions that
	// select something win over it wherever they stand.
	Select Select `json:"select,omitempty"`
	Properties
	Overlay string `json:"overlay,omitempty"` // "sha256:..." of the file with the values that tuning changed
	// Statistics are "sha256:..." of the file with what was observed of the tensors that the overlay's steps changed; empty without such.
	Statistics string          `json:"statistics,omitempty"`
	Unset      []int           `json:"unset,omitempty"`    // the numbers, counted from 1, of earlier decisions that are taken back
	Evidence   json.RawMessage `json:"evidence,omitempty"` // an object: what the decision was made on
	After      string          `json:"after,omitempty"`    // Hash of what was in force before it, for evidence to go stale by
}

// Select is a selector, or several that are joined. In JSON one is a string and several are a list.
type Select []string

// MarshalJSON writes one selector as a string.
func (s Select) MarshalJSON() ([]byte, error) {
	if len(s) == 1 {
		return plainJSON(s[0])
	}
	return plainJSON([]string(s))
}

// UnmarshalJSON reads a string or a list of strings; neither may be empty.
func (s *Select) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		*s = Select{one}
	} else if err := json.Unmarshal(b, (*[]string)(s)); err != nil {
		return fmt.Errorf("select is a selector or a list of them, not %s", b)
	}
	if len(*s) == 0 || slices.Contains(*s, "") {
		return errors.New("an empty selector")
	}
	return nil
}

// String joins the selectors by commas.
func (s Select) String() string {
	escaped := make([]string, len(s))
	for i, one := range s {
		if escaped[i] = one; len(s) > 1 {
			escaped[i] = strings.ReplaceAll(one, ",", `\,`)
		}
	}
	return strings.Join(escaped, ",")
}

// Selector parses what the decision is about.
func (s Select) Selector() (*Selector, error) { return ParseSelector(s...) }

// String is the decision as the log shows it: "user: conv1:in0 scale=0.02 zero_point=0".
func (d *Decision) String() string {
	words := []string{string(d.By) + ":"}
	if d.Goal != "" {
		words = append(words, d.Goal+":")
	}
	if d.Method != "" {
		words = append(words, d.Method)
	}
	if len(d.Select) > 0 {
		words = append(words, d.Select.String())
	}
	words = append(words, d.Properties.Words()...)
	if len(d.Unset) > 0 {
		words = append(words, "takes back "+numbers(d.Unset))
	}
	return strings.Join(words, " ")
}

// numbers writes decisions as #1, #2.
func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprintf("#%d", n)
	}
	return strings.Join(words, ", ")
}

// Encode returns the one form of a decision: equal decisions give equal bytes, on one line.
func (d *Decision) Encode() ([]byte, error) {
	for _, s := range append([]string{d.Goal, d.Method}, d.Select...) {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("decision: %q is not UTF-8", s)
		}
	}
	b, err := plainJSON(d)
	if err != nil {
		return nil, fmt.Errorf("decision: %w", err)
	}
	return b, nil
}

// plainJSON is JSON without the escapes that HTML wants.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Parse reads one decision; what names it in errors. Unknown keys, values of the wrong kind and contradictions are errors.
func Parse(what string, src []byte) (*Decision, error) {
	d := new(Decision)
	if err := strictjson.Decode(what, src, d); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return d, nil
}

// Check reports the first thing that is wrong with a decision by itself, whatever the model.
func (d *Decision) Check() error {
	if !slices.Contains(Everyone, d.By) {
		return fmt.Errorf("decision: by is %q, not one of %v", d.By, Everyone)
	}
	if err := d.Properties.check(); err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	if len(d.Select) > 0 {
		if _, err := d.Select.Selector(); err != nil {
			return fmt.Errorf("decision: %w", err)
		}
	}
	for i, p := range properties {
		switch {
		case !d.has(i):
		case p.Scope == OfPlan && len(d.Select) > 0 && !slices.Equal(d.Select, Select{"*"}):
			return fmt.Errorf("decision: %s is of the whole plan: select * or nothing, not %s", p.Name, d.Select)
		case len(d.Select) == 0 && p.Scope != OfPlan && !p.Default:
			return fmt.Errorf("decision: %s needs a select", p.Name)
		}
	}
	for _, raw := range []json.RawMessage{d.Params, d.Evidence} {
		if len(raw) > 0 && raw[0] != '{' {
			return fmt.Errorf("decision: evidence and params are objects, not %s", raw)
		}
	}
	for _, n := range d.Unset {
		if n < 1 {
			return fmt.Errorf("decision: takes back #%d", n)
		}
	}
	switch {
	case len(d.Unset) > 0 && (len(d.Select) > 0 || !d.Properties.Empty()):
		return errors.New("decision: takes others back and decides something itself")
	case len(d.Select) > 0 && d.Properties.Empty() && d.Method == "":
		return fmt.Errorf("decision: nothing is decided for %s", d.Select)
	case d.Overlay != "" && !strings.HasPrefix(d.Overlay, "sha256:"):
		return fmt.Errorf("decision: overlay %q: not sha256 and a digest", d.Overlay)
	case d.Statistics != "" && (d.Overlay == "" || !strings.HasPrefix(d.Statistics, "sha256:") || len(d.Statistics) < len("sha256:")+8):
		return fmt.Errorf("decision: statistics %q: not sha256 and a digest, or without an overlay", d.Statistics)
	}
	return nil
}
