package passes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/pattern"
)

// Pass is one kind of rewrite.
type Pass struct {
	Name string // lower case, with hyphens
	Doc  string // one sentence
	// sweep proposes patches for the whole graph once. Run repeats it until no pass changes anything.
	sweep func(*Context) error
}

// Entry is one thing done or declined.
type Entry struct {
	Pass  string
	Nodes []string // the nodes concerned: those removed, then those added
	What  string
}

// String formats as `pass: what (node, node)`.
func (e Entry) String() string {
	return fmt.Sprintf("%s: %s (%s)", e.Pass, e.What, strings.Join(e.Nodes, ", "))
}

// Log says what a run did. It depends on the graph's structure and names only.
type Log struct {
	Applied  []Entry // in order of application
	Declined []Entry // what was not done although it nearly applied, and why; as of each pass's last sweep
	Rounds   int     // how often the list of passes was gone through
	Types    []error // what graph.InferShapes found wrong before the first pass
}

// Count returns how many patches of the named pass were applied.
func (l *Log) Count(pass string) int {
	n := 0
	for _, e := range l.Applied {
		if e.Pass == pass {
			n++
		}
	}
	return n
}

// maxIdleRounds is how many rounds in a row may change a graph without making it smaller. Every pass removes nodes or
// moves them towards a form no other pass undoes, so more of them mean that two passes undo each other.
const maxIdleRounds = 12

// Run infers types and shapes, which several passes need, and applies the passes in order, again and again until none of them changes
// anything. If they never come to rest, that is an error which names those that are still at it; the graph is then equivalent to the
// original all the same, as it is where ctx ends the work.
func Run(ctx context.Context, g *graph.Graph, list []Pass) (*Log, error) {
	return run(ctx, g, list, nil)
}

// run is Run with a function that is called after every pass.
func run(ctx context.Context, g *graph.Graph, list []Pass, after func(pass string) error) (*Log, error) {
	if err := g.CheckInputs(); err != nil { // rules look at inputs that their operators need
		return &Log{}, fmt.Errorf("normalise: %w", err)
	}
	log := &Log{Types: graph.InferShapes(g)}
	declined := make([][]Entry, len(list))
	idle, size := 0, sizeOf(g)
	for {
		log.Rounds++
		start := len(log.Applied)
		for i := range list {
			if err := ctx.Err(); err != nil {
				return log, err
			}
			c := &Context{G: g, ctx: ctx, pass: list[i].Name, log: log}
			if err := list[i].sweep(c); err != nil {
				return log, fmt.Errorf("normalise: %s: %w", list[i].Name, err)
			}
			declined[i] = c.declined
			if after != nil {
				if err := after(list[i].Name); err != nil {
					return log, fmt.Errorf("normalise: after %s: %w", list[i].Name, err)
				}
			}
		}
		if len(log.Applied) == start {
			break
		}
		idle++
		if now := sizeOf(g); now < size {
			idle, size = 0, now
		}
		if idle > maxIdleRounds {
			return log, fmt.Errorf("normalise: no end after %d rounds; still changing the graph: %s", log.Rounds, busy(log.Applied[start:]))
		}
	}
	log.Declined = slices.Concat(declined...)
	return log, nil
}

func busy(entries []Entry) string {
	var names []string
	for _, e := range entries {
		if !slices.Contains(names, e.Pass) {
			names = append(names, e.Pass)
		}
	}
	return strings.Join(names, ", ")
}

// Context is what a pass sees of one sweep.
type Context struct {
	G        *graph.Graph
	ctx      context.Context
	pass     string
	log      *Log
	declined []Entry
	idioms   []bool // by NodeID, nil until asked for
	outputs  map[graph.ValueID]bool
	shapes   func(graph.ValueID) graph.Shape // nil until asked for
}

// proven returns the shape of v as it follows from the inputs of the graph, nil where it does not. Rewriting changes no shape, so that
// it is found once per sweep.
func (c *Context) proven(v graph.ValueID) graph.Shape {
	if c.shapes == nil {
		c.shapes = graph.ProvenShapes(c.G)
	}
	return c.shapes(v)
}

// isOutput reports whether v is an output of the graph, of which there may be very many. No pass changes which values are.
func (c *Context) isOutput(v graph.ValueID) bool {
	if c.outputs == nil {
		c.outputs = make(map[graph.ValueID]bool, len(c.G.Outputs))
		for _, o := range c.G.Outputs {
			c.outputs[o] = true
		}
	}
	return c.outputs[v]
}

// errDeclined marks reasons for not rewriting, as opposed to failures.
type errDeclined struct{ error }

func decline(format string, args ...any) error { return errDeclined{fmt.Errorf(format, args...)} }

// rule looks at one node as the last of what it might rewrite. It returns nil and nil where it does not apply, a reason made by decline
// where it nearly does, and any other error where the graph cannot be read.
type rule func(c *Context, id graph.NodeID) (*Patch, error)

// each tries rules at every node, in order of execution, the first that proposes something winning.
func each(rules ...rule) func(*Context) error {
	return func(c *Context) error {
		order, err := c.G.Order()
		if err != nil {
			return err
		}
		for _, id := range order {
			if c.G.Alive(id) && c.G.Node(id).Output(0) == graph.NoValue {
				continue // rules rewrite what computes a first output
			}
			for _, r := range rules {
				if !c.G.Alive(id) {
					break
				}
				p, err := r(c, id)
				if err == nil && p != nil {
					err = c.apply(p)
				}
				var d errDeclined
				switch {
				case errors.As(err, &d):
					c.declined = append(c.declined, Entry{c.pass, []string{c.G.Node(id).Name}, d.Error()})
				case err != nil:
					return c.G.ErrorAt("", id, err)
				}
				if err == nil && p != nil {
					break
				}
			}
		}
		return nil
	}
}

// at makes a rule of a pattern and a function that is called with its matches. A match that only fails because an inner
// value is needed elsewhere is declined with that reason.
func at(text string, build func(*Context, *pattern.Match) (*Patch, error)) rule {
	p := pattern.MustParse(text)
	return func(c *Context, id graph.NodeID) (*Patch, error) {
		if m, ok := p.Match(c.G, id); ok {
			return build(c, m)
		}
		if err := p.Blocked(c.G, id); err != nil {
			return nil, errDeclined{err}
		}
		return nil, nil
	}
}

// inIdiom reports whether a node is part of something a target may execute as one operator.
func (c *Context) inIdiom(id graph.NodeID) bool {
	if c.idioms == nil {
		c.idioms = make([]bool, c.G.NumNodes())
		for _, f := range pattern.Cover(c.G, pattern.Families...) {
			for _, n := range f.Nodes {
				c.idioms[n] = true
			}
		}
	}
	return int(id) < len(c.idioms) && c.idioms[id]
}

// sizeOf counts nodes and constants.
func sizeOf(g *graph.Graph) int {
	n := len(g.Nodes())
	for _, v := range g.Values() {
		if g.Value(v).Const != nil {
			n++
		}
	}
	return n
}
