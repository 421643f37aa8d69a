package calib

import (
	"cmp"
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// DefaultMemory is the memory for activations where Config.Memory is 0.
const DefaultMemory = 2 << 30

// crew is how the work is shared: workers run batches of samples, each with its own memory, and each shares its operators among
// threads.
type crew struct{ workers, threads, batch int }

// fit refuses, before anything runs, what does not fit into memory, and leaves in cfg.Memory what there is for activations.
func (r *run) fit(ctx context.Context, first map[string]*tensor.Tensor) error {
	memory := cmp.Or(r.cfg.Memory, DefaultMemory)
	_, room, err := exec.Fit(ctx, r.g, first, exec.Work{}, memory)
	if err == nil && exec.MemoryOf(ctx) > 0 {
		r.cfg.Memory = max(1, min(memory, room/2)) // a run takes more than is alive in it at a time
	}
	return err
}

// hire finds the largest crew whose activations fit into cfg.Memory, judged by the first sample: first more samples at a time,
// then larger batches. One sample is run in any case, and a device, whose own memory is another bound, runs one batch at a time. The
// warning is not empty where a batch had to be smaller.
func (cfg *Config) hire(g *graph.Graph, first map[string]*tensor.Tensor) (crew, tqc.Warning) {
	memory := cfg.Memory
	if memory == 0 {
		memory = DefaultMemory
	}
	live, all := exec.Footprint(g, first)
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
