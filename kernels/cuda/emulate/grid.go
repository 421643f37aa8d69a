package emulate

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"qwb/kernels/cuda/driver"
)

// launch is one run of a kernel.
type launch struct {
	program *program
	grid    driver.Dim
	block   driver.Dim
	params  []byte
	shared  int // bytes of a block, static and dynamic
	dynamic int
	options *Options
	memory  []*allocation
	atomics *sync.Mutex // of global memory; locks and unlocks order what kernels order by atomics

	blockNotes map[*allocation][]blockNotes // of Blockcheck

	stop atomic.Bool
	next atomic.Int64
	left atomic.Int64 // instructions of the budget
	done atomic.Int64 // instructions run
}

// block is a thread block that runs on one goroutine.
type block struct {
	l        *launch
	threads  int
	at       [3]int
	atomics  bool // some thread has used one on global memory
	warps    []*warp
	shared   []byte
	written  []byte // state of every byte of shared
	race     raceState
	proxy    proxyState
	products [][]productNote // started, by warpgroup
}

// run executes all blocks, and returns the fault of the first block that had one.
func (l *launch) run() *fault {
	total := int64(l.grid.X) * int64(l.grid.Y) * int64(l.grid.Z)
	workers := l.options.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = int(min(int64(workers), total))
	if l.options.Blockcheck {
		workers, l.blockNotes = 1, map[*allocation][]blockNotes{}
	}
	l.left.Store(l.options.Budget)
	var (
		mu    sync.Mutex
		first *fault
		where int64
		group sync.WaitGroup
	)
	work := func() {
		b := l.takeBlock()
		defer l.giveBlock(b)
		for !l.stop.Load() {
			n := l.next.Add(1) - 1
			if n >= total {
				return
			}
			x, y := int64(l.grid.X), int64(l.grid.Y)
			if f := b.run([3]int{int(n % x), int(n / x % y), int(n / x / y)}); f != nil {
				l.stop.Store(true) // blocks before this one have been handed out, and finish
				mu.Lock()
				if first == nil || n < where {
					first, where = f, n
				}
				mu.Unlock()
			}
		}
	}
	if workers == 1 {
		work()
		return first
	}
	for range workers {
		group.Go(work)
	}
	group.Wait()
	return first
}

// idleBlocks are blocks of a program that no launch uses, to be used again: making them takes longer than many a launch.
type idleBlocks struct {
	mu   sync.Mutex
	list []*block
}

const maxIdle = 16

// takeBlock returns a block of the launch's shape.
func (l *launch) takeBlock() *block {
	idle := l.program.idle
	idle.mu.Lock()
	defer idle.mu.Unlock()
	for i, b := range idle.list {
		if b.threads == l.block.Count() && len(b.shared) == l.shared && b.race.on == l.options.Racecheck {
			idle.list = slices.Delete(idle.list, i, i+1)
			b.l = l
			for _, w := range b.warps {
				clear(w.near)
			}
			return b
		}
	}
	return l.newBlock()
}

// giveBlock keeps a block for the next launch; it holds nothing of this one.
func (l *launch) giveBlock(b *block) {
	b.l = nil
	idle := l.program.idle
	idle.mu.Lock()
	defer idle.mu.Unlock()
	if len(idle.list) == maxIdle {
		idle.list = slices.Delete(idle.list, 0, 1)
	}
	idle.list = append(idle.list, b)
}

// newBlock makes what a goroutine needs to run one block after the other.
func (l *launch) newBlock() *block {
	b := &block{l: l, threads: l.block.Count(), shared: make([]byte, l.shared), written: make([]byte, l.shared)}
	p := l.program
	threads := l.block.Count()
	for i := 0; i*warpSize < threads; i++ {
		w := &warp{b: b, index: i, code: p.code, r: make([]lanes32, p.r), q: make([]lanes64, p.q), p: make([]uint32, p.p),
			near: make([]*allocation, p.memory), local: make([]byte, p.frame*warpSize), written: make([]byte, p.frame*warpSize)}
		w.exists = allLanes
		if rest := threads - i*warpSize; rest < warpSize {
			w.exists = 1<<rest - 1
		}
		w.p[0] = allLanes
		for _, c := range p.const32 {
			for k := range w.r[c.index] {
				w.r[c.index][k] = c.value
			}
		}
		for _, c := range p.const64 {
			for k := range w.q[c.index] {
				w.q[c.index][k] = c.value
			}
		}
		b.warps = append(b.warps, w)
	}
	if l.options.Racecheck {
		b.race.init(l.shared)
	}
	return b
}

// turn is how many instructions a warp runs before the next one has its turn.
const turn = 1 << 16

// run executes one block.
func (b *block) run(at [3]int) *fault {
	b.at, b.atomics = at, false
	fill(b.shared, poison)
	clear(b.written)
	b.products = b.products[:0]
	b.race.barrier(b)
	for _, w := range b.warps {
		w.reset()
	}
	for {
		ran, ended := false, 0
		for _, w := range b.warps {
			if w.state == warpReady {
				before := w.steps
				w.run(turn)
				ran = true
				if w.fault != nil {
					return w.fault
				}
				n := w.steps - before
				if l := b.l; l.options.Budget > 0 && l.left.Add(-n) < 0 {
					w.pc = min(w.groupPC(), len(w.code)-1)
					w.fail(launchTimeout, 0, "the launch has run more than %d instructions of warps", l.options.Budget)
					return w.fault
				}
				b.l.done.Add(n)
			}
			if w.state == warpDone {
				ended++
			}
		}
		if ended == len(b.warps) {
			return b.productsEnd()
		}
		if !ran {
			if f := b.release(); f != nil {
				return f
			}
		}
	}
}

func (w *warp) groupPC() int {
	if len(w.groups) == 0 {
		return w.pc
	}
	return w.groups[0].pc
}

func fill(p []byte, x byte) {
	const short = 64
	for i := range p[:min(len(p), short)] {
		p[i] = x
	}
	for n := short; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
}

// reset prepares a warp for its next block.
func (w *warp) reset() {
	w.dead = ^w.exists
	w.groups = append(w.groups[:0], group{mask: w.exists})
	w.state, w.steps, w.fault = warpReady, 0, nil
	w.async.reset()
	w.products.reset()
	clear(w.written)
	fill(w.local, poison)
	p := w.b.l.program
	for i := range w.r[p.fixed[class32]:] { // what nothing has written is nonsense, and the same whatever ran before
		w.r[p.fixed[class32]+i] = nonsense32
	}
	for i := range w.q[p.fixed[class64]:] {
		w.q[p.fixed[class64]+i] = nonsense64
	}
	for i := range w.p[p.fixed[classPred]:] {
		w.p[p.fixed[classPred]+i] = 0x6b3a95c7
	}
	for _, s := range w.b.l.program.specials {
		r := &w.r[s.index]
		for i := range r {
			r[i] = s.value(w, i)
		}
	}
}

// What registers hold that nothing has written: another value in every lane.
var nonsense32, nonsense64 = func() (a lanes32, b lanes64) {
	for i := range a {
		a[i] = 0xa5c3_96b1 * uint32(2*i+1)
		b[i] = 0xa5c3_96b1_e7d2_4f85 * uint64(2*i+1)
	}
	return a, b
}()
