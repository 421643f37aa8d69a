package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Hash returns, in hexadecimal, the SHA-256 of what the plan makes of its model: inputs by their content, decisions and numbers. Paths,
// reasons, warnings, what can be done again, and the verification are not part of it.
func (p *Plan) Hash() (string, error) {
	if p.Options != nil {
		q := *p
		q.Verification = nil
		b, err := q.Encode()
		if err != nil {
			return "", err
		}
		return digest(b), nil
	}
	inputs, err := p.Inputs()
	if err != nil {
		return "", err
	}
	nodes, err := p.nodesHash()
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "qwb plan %d\ninputs %s\nnodes %s\n", Version, inputs, nodes)
	for i := range p.Decisions {
		d := p.Decisions[i]
		d.Params, d.Evidence = canonical(d.Params), canonical(d.Evidence)
		line, err := d.Encode()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	return digest(b.Bytes()), nil
}

// canonical spells the numbers of JSON as Go does, and strings without needless escapes: the hash does not depend on which program wrote a
// plan last. What is no JSON stays as it is.
func canonical(raw json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	source := json.NewDecoder(bytes.NewReader(raw))
	source.UseNumber()
	type level struct{ object, key, begun bool } // key: the next string is one
	var stack []level
	for {
		token, err := source.Token()
		if errors.Is(err, io.EOF) {
			return out.Bytes()
		}
		if err != nil {
			return raw
		}
		end := token == json.Delim('}') || token == json.Delim(']')
		if n := len(stack); n > 0 && !end {
			switch top := &stack[n-1]; {
			case top.object && !top.key:
				out.WriteByte(':')
			case top.begun:
				out.WriteByte(',')
			}
			stack[n-1].begun, stack[n-1].key = true, !stack[n-1].key
		}
		switch v := token.(type) {
		case json.Delim:
			out.WriteString(v.String())
			if end {
				stack = stack[:len(stack)-1]
			} else {
				stack = append(stack, level{object: v == '{', key: true})
			}
		case json.Number:
			out.WriteString(number(v.String()))
		default:
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				return raw
			}
			out.Truncate(out.Len() - 1) // a line feed
		}
	}
}

// number is a number as Go spells it; whole ones stay, of any length.
func number(text string) string {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !strings.ContainsAny(text, ".eE") {
		return text
	}
	b, err := json.Marshal(x)
	if err != nil {
		return text
	}
	return string(b)
}

// Inputs returns the SHA-256 of what the plan was made from: model, imported file, data, preprocessing, ranges and target. Decisions
// name it as part of what their evidence was gathered under.
func (p *Plan) Inputs() (string, error) {
	e := &encoder{}
	pre := p.Preprocess
	pre.Tokenizer = "" // a path; the samples' hashes cover what it made
	e.field("preprocess", pre)
	if e.err != nil {
		return "", e.err
	}
	imported := ""
	if p.Imported != nil {
		imported = p.Imported.SHA256
	}
	for _, part := range []string{p.Model.SHA256, imported, p.Data.Hash, p.Ranges, p.Platform, p.Profile, p.Target.SHA256} {
		fmt.Fprintf(&e.buf, "%q\n", part)
	}
	return digest(e.buf.Bytes()), nil
}

// nodesHash is the SHA-256 of schemes and nodes without their reasons.
func (p *Plan) nodesHash() (string, error) {
	e := &encoder{}
	e.schemes(p)
	nodes := slices.Clone(p.Nodes)
	for i := range nodes {
		nodes[i].Why = ""
	}
	e.list("nodes", len(nodes), func(i int) { e.node(&nodes[i]) })
	return digest(e.buf.Bytes()), e.err
}

// Edited reports whether somebody changed the numbers of a plan that was read: the hash in it is of others. Plans of version 1, which
// have no such hash, may be edited.
func (p *Plan) Edited() (bool, error) {
	if p.Options != nil || p.NodesHash == "" {
		return false, nil
	}
	now, err := p.nodesHash()
	return now != p.NodesHash, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
