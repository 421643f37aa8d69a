package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
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
		line, err := p.Decisions[i].Encode()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	return digest(b.Bytes()), nil
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
