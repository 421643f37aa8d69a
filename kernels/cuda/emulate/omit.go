package emulate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"qwb/internal/arrange"
)

// Omissions tests the checks themselves. Each launch runs again for every instruction of its kernel that orders something (a barrier, a
// fence, a commit, a wait) with that instruction left out, and for every wait also with one group more left under way. A kernel that is
// then still without a fault and gives the same bytes either does not need the instruction, or the checks do not see that it does.
type Omissions struct {
	// Most is how many launches an omission may pass unnoticed before it is tried no more.
	Most int

	mu   sync.Mutex
	list map[string]*Omission
}

// Omission is an instruction left out or weakened.
type Omission struct {
	PTX                 uint32 // CRC-32 of the text of the module
	Kernel, Instruction string
	Line                int
	Launches            int    // that it was tried in
	Noticed             string // the fault, or "other results"; "" if none noticed
}

// List returns what was tried, by kernel and line.
func (o *Omissions) List() []Omission {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []Omission
	for _, x := range o.list {
		list = append(list, *x)
	}
	arrange.Stable(list, func(a, b Omission) int {
		return strings.Compare(fmt.Sprintf("%8x %s %9d %s", a.PTX, a.Kernel, a.Line, a.Instruction),
			fmt.Sprintf("%8x %s %9d %s", b.PTX, b.Kernel, b.Line, b.Instruction))
	})
	return list
}

// orders are the beginnings of instructions that order something.
var orders = []string{"bar.", "barrier.", "cp.async.commit", "cp.async.wait", "wgmma.fence", "wgmma.commit", "wgmma.wait", "fence.proxy"}

// run is l.run, and before it that of every omission that is still to be noticed. What those write is undone.
func (o *Omissions) run(l *launch, ptx uint32) *fault {
	before := keepMemory(l.memory)
	f := l.run()
	if f != nil {
		return f
	}
	after := keepMemory(l.memory)
	options := *l.options
	options.Budget = 4*l.done.Load() + 1000
	for pc, in := range l.program.code {
		text := in.source.text
		at := slices.IndexFunc(orders, func(s string) bool { return strings.HasPrefix(text, s) })
		if at < 0 {
			continue
		}
		variants := map[string]func(w *warp, m uint32){text: func(*warp, uint32) {}}
		left := 0
		if _, err := fmt.Sscanf(text[strings.LastIndexByte(text, ' ')+1:], "%d;", &left); err == nil && strings.Contains(text, ".wait_group") {
			variants[fmt.Sprintf("%s with %d", text, left+1)] = func(w *warp, m uint32) {
				if strings.HasPrefix(text, "wgmma") {
					w.productsWait(left + 1)
				} else {
					w.asyncWait(m, left+1)
				}
			}
		}
		for name, exec := range variants {
			x := o.at(fmt.Sprint(ptx, l.program.name, pc, name), Omission{PTX: ptx, Kernel: l.program.name, Instruction: name, Line: in.source.line})
			if x == nil {
				continue
			}
			p := *l.program
			p.idle = &idleBlocks{}
			p.code = slices.Clone(p.code)
			p.code[pc].shape, p.code[pc].exec, p.code[pc].members = shapeExec, exec, nil
			without := &launch{program: &p, grid: l.grid, block: l.block, params: l.params, shared: l.shared, dynamic: l.dynamic, options: &options,
				memory: l.memory, atomics: l.atomics}
			before.restore()
			noticed := ""
			if f := without.run(); f != nil {
				noticed = f.String()
			} else if !keepMemory(l.memory).equal(after) {
				noticed = "other results"
			}
			o.mu.Lock()
			x.Launches++
			if x.Noticed == "" {
				x.Noticed = noticed
			}
			o.mu.Unlock()
		}
	}
	after.restore()
	return nil
}

// at returns an omission that is to be tried, nil if it has been noticed or tried often enough.
func (o *Omissions) at(key string, fresh Omission) *Omission {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = map[string]*Omission{}
	}
	x := o.list[key]
	if x == nil {
		x = &fresh
		o.list[key] = x
	}
	if x.Noticed != "" || x.Launches >= o.Most {
		return nil
	}
	return x
}

// keptMemory is what allocations held.
type keptMemory struct {
	list          []*allocation
	data, written [][]byte
}

func keepMemory(list []*allocation) (k keptMemory) {
	for _, a := range list {
		if !a.freed && !a.readOnly {
			k.list, k.data, k.written = append(k.list, a), append(k.data, bytes.Clone(a.data)), append(k.written, bytes.Clone(a.written))
		}
	}
	return k
}

func (k keptMemory) restore() {
	for i, a := range k.list {
		copy(a.data, k.data[i])
		copy(a.written, k.written[i])
	}
}

func (k keptMemory) equal(other keptMemory) bool {
	return slices.EqualFunc(k.data, other.data, bytes.Equal) && slices.EqualFunc(k.written, other.written, bytes.Equal)
}
