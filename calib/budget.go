package calib

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// DefaultMemory is the memory for activations where Config.Memory is 0.
const DefaultMemory = 2 << 30

// crew is how the work is shared: workers run batches of samples, each with its own memory, and each shares its operators among
// threads.
type crew struct{ workers, threads, batch int }

// hire finds the largest crew whose activations fit into cfg.Memory, judged by the first sample: first more samples at a time,
// then larger batches. One sample is run in any case, and a device, whose own memory is another bound, runs one batch at a time. The
// warning is not empty where a batch had to be smaller.
func (cfg *Config) hire(g *graph.Graph, first map[string]*tensor.Tensor) (crew, tqc.Warning) {
	memory := cfg.Memory
	if memory == 0 {
		memory = DefaultMemory
	}
	live, all := footprint(g, first)
	threads, batch := max(cfg.Threads, 1), max(cfg.Batch, 1)
	c := crew{workers: int(min(int64(threads), max(1, memory/max(live, 1))))}
	if cfg.Device != nil {
		c.workers = 1
		memory, all = min(memory, cfg.Device.MemoryBytes()/2), 0 // weights and statistics need memory too
	}
	c.threads = threads / c.workers
	// The first batch is compared with its samples alone, for which the processor keeps everything.
	c.batch = int(min(int64(batch), max(1, memory/max(live*int64(c.workers), 1)), max(1, memory/max(all, 1)-1)))
	if c.batch == batch {
		return c, tqc.Warning{}
	}
	return c, tqc.Warning{Value: float64(c.batch),
		Text: fmt.Sprintf("%d samples run at a time instead of %d: the activations of more do not fit into --mem (%d MiB)",
			c.batch, batch, memory>>20)}
}

// footprint estimates the bytes of one run of g: those of the values that are alive at a time, and those of all. Sizes that
// are not known take that of the input's dimension of the same name, or 1.
func footprint(g *graph.Graph, feeds map[string]*tensor.Tensor) (live, all int64) {
	order, err := g.Order()
	if err != nil {
		return 0, 0 // running it will say so
	}
	sizes := map[string]int64{}
	for _, v := range g.Inputs {
		t := feeds[g.Value(v).Name]
		for i, d := range g.Value(v).Shape {
			if t != nil && i < len(t.Shape) && !d.Known() && d.Symbol != "" {
				sizes[d.Symbol] = int64(t.Shape[i])
			}
		}
	}
	last := map[graph.ValueID]int{}
	for i, id := range order {
		for _, v := range g.Node(id).Inputs {
			last[v] = i
		}
	}
	for _, v := range g.Outputs {
		last[v] = len(order)
	}
	var now int64
	for i, id := range order {
		n := g.Node(id)
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				size := valueBytes(g.Value(v), sizes)
				now, all = now+size, all+size
				last[v] = max(last[v], i)
			}
		}
		live = max(live, now)
		for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
			for _, v := range list {
				if end, ok := last[v]; ok && end == i && v != graph.NoValue && g.Const(v) == nil && g.Producer(v) != graph.NoNode {
					now -= valueBytes(g.Value(v), sizes)
					delete(last, v)
				}
			}
		}
	}
	return live, all
}

// valueBytes is the size of a value, limited so that sums do not overflow.
func valueBytes(v *graph.Value, sizes map[string]int64) int64 {
	const most = 1 << 40
	bytes := int64(max(v.DType.Bits(), 8) / 8)
	for _, d := range v.Shape {
		n := d.N
		if !d.Known() {
			n = max(sizes[d.Symbol], 1)
		}
		if n > 0 && bytes > most/n {
			return most
		}
		bytes *= n
	}
	return bytes
}
