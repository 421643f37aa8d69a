package cuda

import (
	"fmt"
	"strings"
)

// Tile is a kernel for products: the sums of a block of threads, and what they cost.
type Tile struct {
	Name         string // of the source: product_NAME.cu
	M, N         int
	Threads      int
	stages       int
	warpM, warpN int
	blocks       int  // on a multiprocessor, as far as registers go
	narrow       bool // reads pieces of 4 bytes too
	step         int  // blocks of 64 of k that it takes at a time
	arch         int  // the one compute capability that has its instructions; 0: all
	rate         int  // products a multiprocessor can do in a cycle, of Hopper's 4096
}

// Tiles lists the tiles. Their rates are estimates, of the shared memory that their warps read and of how many wait at a time; those of
// 128x128 and 128x64 were lowered to what an H200 measured.
func Tiles() []Tile {
	return []Tile{
		{Name: "wgmma_192x256", M: 192, N: 256, Threads: 384, stages: 4, warpM: 64, warpN: 256, blocks: 1, rate: 3700, step: 2, arch: 90},
		{Name: "wgmma_128x256", M: 128, N: 256, Threads: 256, stages: 4, warpM: 64, warpN: 256, blocks: 1, rate: 3600, step: 2, arch: 90},
		{Name: "wgmma_256x128", M: 256, N: 128, Threads: 256, stages: 4, warpM: 128, warpN: 128, blocks: 1, rate: 3300, step: 2, arch: 90},
		{Name: "wgmma_128x128", M: 128, N: 128, Threads: 128, stages: 3, warpM: 128, warpN: 128, blocks: 2, rate: 3100, step: 2, arch: 90},
		{Name: "256x128", M: 256, N: 128, Threads: 256, stages: 4, warpM: 64, warpN: 64, blocks: 1, rate: 2450, step: 1},
		{Name: "128x128", M: 128, N: 128, Threads: 128, stages: 4, warpM: 64, warpN: 64, blocks: 2, rate: 1600, step: 1},
		{Name: "128x64", M: 128, N: 64, Threads: 128, stages: 4, warpM: 64, warpN: 32, blocks: 3, narrow: true, rate: 1000, step: 1},
		{Name: "64x64", M: 64, N: 64, Threads: 128, stages: 4, warpM: 32, warpN: 32, blocks: 4, narrow: true, rate: 1300, step: 1},
		{Name: "128x32", M: 128, N: 32, Threads: 128, stages: 4, warpM: 32, warpN: 32, blocks: 4, narrow: true, rate: 1200, step: 1},
		{Name: "32x64", M: 32, N: 64, Threads: 128, stages: 6, warpM: 32, warpN: 16, blocks: 5, rate: 900, step: 1},
	}
}

// On reports whether devices of a compute capability have the tile.
func (t *Tile) On(arch int) bool { return t.arch == 0 || t.arch == arch }

// shared is how many bytes of shared memory a block needs: the ring of steps, through which the sums go afterwards.
func (t *Tile) shared(tensorCores bool) int {
	if !tensorCores { // one step in numbers of 4 bytes, or 4 rows a thread of sums
		return max(16*(t.M+4+t.N+4)*4, t.Threads/16*4*(t.N+8)*4)
	}
	rows := t.M
	if t.warpM > 16 {
		rows /= 2
	}
	return max(t.stages*(t.M+t.N)*64*t.step, rows*(t.N+8)*4)
}

// job is what a tile is chosen for.
type job struct {
	m, n, blocks int // rows, columns, blocks of 64 of k
	parts        int
	narrow       bool
	sms          int
	limit        int // bytes of shared memory of a block
	perSM        int // and of a multiprocessor
	tensorCores  bool
	arch         int
	tile         string // forced
	splits       int    // forced
}

// choice is a tile, the number of slices of k and how long they may take in cycles.
type choice struct {
	tile   Tile
	splits int
	blocks int // of k, a multiple of those of a step
	each   int // of a slice
	cycles int
}

// choose returns the tile and the slices that promise to be the fastest. What it reckons with, in cycles of a multiprocessor: blocks
// come in waves. One alone takes its beginning, its steps, which take as long as their products, as the bytes they read from the L2
// cache, and no less than a copy's latency allows, and its outputs. Several on a multiprocessor share it. Slices write and read their
// sums and need another kernel. The constants are fitted to 120 times of an H200 (docs/gpu.md).
func choose(j job) (choice, error) {
	const (
		latency = 280  // of a step at least, with the copies of several under way
		outside = 4100 // beginning and end of a block
		bytes   = 28   // of the L2 cache in a cycle
		outputs = 4    // in a cycle,
		threads = 64   // and by so many threads one
		another = 6600 // launch and latency of a kernel
	)
	best := choice{}
	var names []string
	for _, t := range Tiles() {
		names = append(names, t.Name)
		if j.tile != "" && t.Name != j.tile || j.narrow && !t.narrow || t.shared(j.tensorCores) > j.limit ||
			!t.On(j.arch) {
			continue
		}
		blocks := multiple(j.blocks, t.step)
		tiles := ceilDiv(j.m, t.M) * ceilDiv(j.n, t.N) * j.parts
		resident := max(min(t.blocks, j.perSM/(t.shared(j.tensorCores)+1024)), 1)
		for splits := 1; splits <= min(blocks/t.step, 64); splits++ {
			if j.splits != 0 && splits != min(j.splits, blocks/t.step, 64) {
				continue
			}
			each := multiple(ceilDiv(blocks, splits), t.step)
			if ceilDiv(blocks, each) != splits && j.splits == 0 {
				continue
			}
			all := tiles * splits
			active := min(resident, ceilDiv(all, j.sms))
			waves := ceilDiv(all, j.sms*resident)
			step, out := max(t.M*t.N*64/t.rate, (t.M+t.N)*64/bytes), t.M*t.N/outputs
			alone := outside + each*max(latency, step) + max(out, t.M*t.N*threads/t.Threads)
			shared := active * (each*step + out)
			cycles := waves * max(alone, shared)
			if splits > 1 {
				cycles += another + 2*splits*j.m*j.n*j.parts*4/(bytes*j.sms)
			}
			if best.splits == 0 || cycles < best.cycles {
				best = choice{tile: t, splits: ceilDiv(blocks, each), blocks: blocks, each: each, cycles: cycles}
			}
		}
	}
	if best.splits == 0 {
		return best, fmt.Errorf("cuda: no tile %q for this product and device; there are %s", j.tile, strings.Join(names, ", "))
	}
	return best, nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
