package onnx

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// nodeScan is a NodeProto taken apart.
type nodeScan struct {
	raw      []byte
	unique   string // the name in the graph: name, unless that is empty or taken
	name     string
	op       string
	domain   string
	doc      string
	overload string
	inputs   []string
	outputs  []string
	attrs    []attrScan
	other    [][]byte // fields of later ONNX versions (metadata, device configuration), tags included
}

func scanNode(b []byte) (*nodeScan, error) {
	s := &nodeScan{raw: b}
	c := cursor{rest: b}
	for c.next() {
		switch c.f.num {
		case nodeInputs, nodeOutputs:
			var name string
			c.str(&name)
			if !utf8.ValidString(name) {
				return s, s.fail(fmt.Errorf("name %q of an input or output is not UTF-8", name))
			}
			if c.f.num == nodeInputs {
				s.inputs = append(s.inputs, name)
			} else {
				s.outputs = append(s.outputs, name)
			}
		case nodeName:
			c.str(&s.name)
		case nodeOp:
			c.str(&s.op)
		case nodeDomain:
			c.str(&s.domain)
		case nodeDoc:
			c.str(&s.doc)
		case nodeOverload:
			c.str(&s.overload)
		case nodeAttrs:
			if c.want(protowire.BytesType) {
				a, err := scanAttr(c.f.data)
				if err != nil {
					return s, s.fail(fmt.Errorf("attribute %q: %w", a.name, err))
				}
				s.attrs = append(s.attrs, a)
			}
		default:
			s.other = append(s.other, c.f.raw)
		}
	}
	if c.err != nil {
		return s, s.fail(c.err)
	}
	if s.op == "" || !utf8.ValidString(s.op) {
		return s, s.fail(fmt.Errorf("the operator is empty or not UTF-8"))
	}
	return s, s.fail(s.uniqueAttrs())
}

func (s *nodeScan) uniqueAttrs() error {
	if len(s.attrs) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(s.attrs))
	for i := range s.attrs {
		if seen[s.attrs[i].name] {
			return fmt.Errorf("attribute %q is given twice", s.attrs[i].name)
		}
		seen[s.attrs[i].name] = true
	}
	return nil
}

// fail says at which node an error happened. A nil err stays nil.
func (s *nodeScan) fail(err error) error {
	if err == nil {
		return nil
	}
	name := s.unique
	if name == "" {
		name = s.name
	}
	return &graph.NodeError{Node: name, Op: s.op, Err: err}
}

// nameNodes gives every node a name that is unique in its graph: its own where it has one that no node before it has, else
// operator and first output. It returns the nodes whose own name was taken.
func nameNodes(nodes []*nodeScan) (renamed []*nodeScan) {
	taken := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		if n.name != "" && !taken[n.name] {
			n.unique = n.name
			taken[n.name] = true
		}
	}
	count := map[string]int{}
	for _, n := range nodes {
		if n.unique != "" {
			continue
		}
		if n.name != "" {
			renamed = append(renamed, n)
		}
		base := n.op
		for _, out := range n.outputs {
			if out != "" {
				base += "_" + out
				break
			}
		}
		n.unique = base
		for taken[n.unique] {
			count[base]++
			n.unique = fmt.Sprintf("%s_%d", base, count[base])
		}
		taken[n.unique] = true
	}
	return renamed
}
