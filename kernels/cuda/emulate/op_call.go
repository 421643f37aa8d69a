package emulate

import (
	"slices"
	"strings"
)

const maxCalls = 4096

// call decodes the body of a device function in place. Its parameters are the caller's variables.
func (d *decoder) call(in *instr) {
	d.has("uni")
	ops := d.op.operands
	var results, args []operand
	if len(ops) > 0 && ops[0].kind == opdList {
		results, ops = ops[0].list, ops[1:]
	}
	if len(ops) == 2 && ops[1].kind == opdList {
		args, ops = ops[1].list, ops[:1]
	}
	if len(ops) != 1 || ops[0].kind != opdName {
		d.fail("only direct calls are supported")
		return
	}
	f := d.module.function(ops[0].name)
	switch {
	case f == nil || f.body == "":
		d.fail("function %s is not defined here", ops[0].name)
		return
	case f.entry || len(f.params) != len(args) || len(f.returns) != len(results):
		d.fail("function %s is called with the wrong parameters", f.name)
		return
	case slices.Contains(d.calls, f.name) || len(d.calls) > 32:
		d.fail("recursion is not supported: %s", strings.Join(append(d.calls, f.name), " calls "))
		return
	case d.inlined == maxCalls:
		d.fail("kernel %s has more than %d calls", d.prog.name, maxCalls)
		return
	case in.pred >= 0: // the call happens for some lanes: branch around
		skip := &label{at: -1}
		d.branch(instr{shape: shapeBranch, pred: in.pred, invert: ^in.invert, source: in.source}, skip)
		defer func() { d.place(skip) }()
	}
	names := map[string]*symbol{}
	bind := func(formal []*variable, actual []operand) {
		for i, v := range formal {
			s := d.env.find(actual[i].name)
			if actual[i].kind != opdName || s == nil || s.kind != symPlace || s.v.space != "param" || s.v.bytes < v.bytes {
				d.fail("argument %d of %s is no variable of .param with %d bytes", i, f.name, v.bytes)
				return
			}
			names[v.name] = s
		}
	}
	bind(f.params, args)
	bind(f.returns, results)
	if d.err != nil {
		return
	}
	d.inlined++
	op, used, outer, end := d.op, d.used, d.env, d.end
	d.calls = append(d.calls, f.name)
	d.end = &label{at: -1}
	d.env = &env{names: names, outer: &env{names: d.module.names()}}
	body, err := d.module.body(f)
	if err == nil {
		err = d.scope(body)
	}
	if err != nil && d.err == nil {
		d.err = err
	}
	d.place(d.end)
	d.calls = d.calls[:len(d.calls)-1]
	d.op, d.used, d.env, d.end = op, used, outer, end
	in.source = nil // nothing is left of the call itself
}
