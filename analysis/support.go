package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Where is where an operator runs on a target.
type Where string

// The places.
const (
	WhereInteger     Where = "integer"     // on the target's integers
	WhereFloat       Where = "float"       // on the target, in float
	WhereHost        Where = "host"        // on another processor, in float
	WhereShape       Where = "shape"       // it computes shapes or indices, which are no numbers to quantize
	WhereUnsupported Where = "unsupported" // nowhere: the target has no float, or its files have no form for it
	WhereUnknown     Where = "unknown"     // nobody has seen the engine compute it
)

// Wheres lists them all, as tables show them.
var Wheres = []Where{WhereInteger, WhereFloat, WhereHost, WhereShape, WhereUnsupported, WhereUnknown}

// Support says where the operators of a model run on a target, as far as qwb knows without running the engine.
type Support struct {
	Platform string `json:"platform"`
	Format   string `json:"format"`  // of the file that the engine reads
	Engine   string `json:"engine"`  // and version, where one was at hand; empty: nobody in particular
	Profile  string `json:"profile"` // of the arithmetic of its integers
	// Known: the profile's integers were held to the engine's own. Unread says why no engine has opened a file of the target; empty: one has.
	Known  bool   `json:"known"`
	Unread string `json:"unread,omitempty"`
	// Tried: the format's writer was asked for every operator, with made-up ranges. Otherwise Untried says why not, and files may lack a form
	// for operators that are called float.
	Tried   bool          `json:"tried"`
	Untried string        `json:"untried,omitempty"`
	Counts  []WhereCount  `json:"counts"`
	Nodes   []NodeSupport `json:"nodes"` // of the normal form, in canonical order
	// Refused is what the writer has no form for beside operators.
	Refused []string `json:"refused,omitempty"`
}

// WhereCount is how many operators run there, and which share of the multiply-accumulates that are known.
type WhereCount struct {
	Where Where   `json:"where"`
	Nodes int     `json:"nodes"`
	MACs  float64 `json:"macs"`
}

// NodeSupport is where one operator runs.
type NodeSupport struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Tensor string `json:"tensor"` // its first output
	Where  Where  `json:"where"`
	// Rule is what decides it: the role in the target's table of what runs on integers (weighted, arithmetic, activation, passive); of the
	// rest the condition that does not hold, no-row, who else decided (the dispatcher's name, rule, cost), format, operator, or engine.
	Rule   string `json:"rule"`
	Reason string `json:"reason"` // in words
	MACs   int64  `json:"macs"`

	standard bool // ONNX defines the operator, or the program brings it along
}

// NewSupport judges the operators of a graph in normal form with inferred shapes under an assignment for the target.
func NewSupport(g *graph.Graph, t *target.Target, a *dispatch.Assignment) (*Support, error) {
	b, err := t.Bind(g)
	if err != nil {
		return nil, err
	}
	e := target.EngineOf(t.Name)
	s := &Support{Platform: t.Name, Engine: e.Name, Profile: t.Profile, Known: e.Knows(t.Profile), Unread: e.Unread, Nodes: []NodeSupport{}}
	one := oneSample(g)
	for _, id := range b.Order {
		n := g.Node(id)
		x := NodeSupport{Node: n.Name, Op: opName(n), standard: n.Spec() != nil}
		x.MACs, _ = one.MACs(id)
		if names := valueNames(g, n.Outputs); len(names) > 0 {
			x.Tensor = names[0]
		}
		x.judge(b, a, id)
		if s.Unread != "" && x.Where == WhereFloat {
			x.Where, x.Rule, x.Reason = WhereUnknown, "engine", x.Reason+"; "+s.Unread
		}
		s.Nodes = append(s.Nodes, x)
	}
	s.count()
	return s, nil
}

// judge fills in verdict, rule and reason.
func (x *NodeSupport) judge(b *target.Bound, a *dispatch.Assignment, id graph.NodeID) {
	why := a.Why[id]
	who, reason, _ := strings.Cut(why, ": ")
	x.Rule, x.Reason = who, cmp.Or(reason, dispatch.Words(why))
	switch d := a.Domains[id]; {
	case d == tqc.DomainSOI:
		x.Where, x.Rule = WhereShape, "shape"
		return
	case d == tqc.DomainInt:
		x.Where, x.Rule, x.Reason = WhereInteger, b.Ops[id].Role.String(), fmt.Sprintf("%s has a row for it", b.Name)
		if head := a.Fused[id]; head != graph.NoNode {
			x.Reason = fmt.Sprintf("computed together with %q", b.Graph.Node(head).Name)
		}
		return
	case !x.standard:
		x.Where, x.Rule, x.Reason = WhereUnknown, "operator", "no operator of ONNX: qwb does not know what it computes"
		return
	}
	x.Where = [...]Where{target.FloatNative: WhereFloat, target.FloatHost: WhereHost, target.FloatAbsent: WhereUnsupported}[b.Float]
	if who != dispatch.ByTarget {
		return
	}
	if _, err := b.Supports(b.Graph, id); err != nil {
		if o := (*target.Obstacle)(nil); errors.As(err, &o) {
			x.Rule = o.Rule
		}
	}
}

// Refuse takes over what the writer of the target's format says: err is nil where it has a form for everything.
func (s *Support) Refuse(err error) {
	if err == nil {
		return
	}
	reasons := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		reasons = many.Unwrap()
	}
	for _, r := range reasons {
		at := (*graph.NodeError)(nil)
		if !errors.As(r, &at) || !s.refuse(at.Node, at.Err.Error()) {
			s.Refused = append(s.Refused, r.Error())
		}
	}
	s.count()
}

func (s *Support) refuse(node, why string) bool {
	for i := range s.Nodes {
		if x := &s.Nodes[i]; x.Node == node {
			x.Where, x.Rule, x.Reason = WhereUnsupported, "format", why
			return true
		}
	}
	return false
}

func (s *Support) count() {
	var total int64
	for i := range s.Nodes {
		total += s.Nodes[i].MACs
	}
	s.Counts = []WhereCount{}
	for _, v := range Wheres {
		c, macs := WhereCount{Where: v}, int64(0)
		for i := range s.Nodes {
			if s.Nodes[i].Where == v {
				c.Nodes++
				macs += s.Nodes[i].MACs
			}
		}
		if total > 0 {
			c.MACs = float64(macs) / float64(total)
		}
		if c.Nodes > 0 {
			s.Counts = append(s.Counts, c)
		}
	}
}
