package cuda

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// h200 is a job on 132 multiprocessors with tensor cores.
func h200(m, n, k int) job {
	return job{m: m, n: n, blocks: ceilDiv(k, 64), parts: 1, sms: 132, limit: 227 << 10, perSM: 228 << 10, tensorCores: true, arch: 90}
}

// on is a job on devices of another compute capability.
func on(arch int, j job) job {
	j.arch = arch
	return j
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		j      job
		tile   string
		slices bool
	}{
		{"a large product", h200(4096, 4096, 4096), "wgmma_192x256", false},
		{"a large product on Ada", on(89, h200(4096, 4096, 4096)), "256x128", false},
		{"a layer of a large batch", h200(256*196, 256, 2304), "wgmma_192x256", false},
		{"one with fewer columns", h200(256*784, 128, 1152), "wgmma_256x128", false},
		{"a product of fewer blocks", h200(2048, 2048, 2048), "wgmma_128x256", false},
		{"rather short sums", h200(256*784, 512, 256), "wgmma_192x256", false},
		{"short sums", h200(256*3136, 256, 64), "128x64", false},
		{"few columns", h200(256*3136, 32, 576), "128x32", false},
		{"one row", h200(1, 1000, 2048), "32x64", true},
		{"few rows, long sums", h200(49, 512, 4608), "32x64", true},
	} {
		got, err := choose(c.j)
		require.NoError(t, err)
		assert.Equal(t, c.tile, got.tile.Name, c.name)
		assert.Equal(t, c.slices, got.splits > 1, "%s: %d slices", c.name, got.splits)
	}
}

// TestChooseAsMeasured: of two ways that an H200 was seen to take longer by 13 percent and more, in microseconds, the slower is not chosen.
func TestChooseAsMeasured(t *testing.T) {
	for _, c := range []struct {
		j            job
		slower       string
		slow, faster float64
	}{
		{h200(1024, 1024, 1024), "128x64", 8.8, 7.5},
		{h200(32*784, 512, 128), "wgmma_128x128", 20.5, 17.9},
		{h200(32*49, 512, 2048), "128x64", 13.4, 11.1},
		{h200(256*784, 512, 128), "wgmma_128x128", 157.4, 135.6},
		{h200(256*196, 1024, 256), "wgmma_128x128", 87.0, 76.6},
	} {
		got, err := choose(c.j)
		require.NoError(t, err)
		assert.NotEqual(t, c.slower, got.tile.Name, "%+v: %v for %v us", c.j, c.slow, c.faster)
	}
}

// TestChooseCovers: slices hold every block of k and none is empty, whatever is asked for.
func TestChooseCovers(t *testing.T) {
	for _, tile := range append(Tiles(), Tile{}) {
		for blocks := 1; blocks < 40; blocks++ {
			for splits := range 12 {
				j := h200(100, 200, 64*blocks)
				j.tile, j.splits = tile.Name, splits
				got, err := choose(j)
				require.NoError(t, err)
				assert.GreaterOrEqual(t, got.blocks, blocks)
				assert.GreaterOrEqual(t, got.splits*got.each, got.blocks)
				assert.Less(t, (got.splits-1)*got.each, got.blocks)
				assert.Zero(t, got.each%got.tile.step+got.blocks%got.tile.step)
				if tile.Name != "" {
					assert.Equal(t, tile.Name, got.tile.Name)
				}
			}
		}
	}
}

// TestChooseFits: a tile that the device has no shared memory for, or that cannot read narrow pieces, is not taken.
func TestChooseFits(t *testing.T) {
	j := h200(4096, 4096, 4096)
	j.limit = 48 << 10
	got, err := choose(j)
	require.NoError(t, err)
	assert.LessOrEqual(t, got.tile.shared(true), 48<<10)
	j.tile = "256x128"
	_, err = choose(j)
	assert.ErrorContains(t, err, `no tile "256x128"`)
	j.tile = "wgmma_256x128"
	_, err = choose(j)
	assert.Error(t, err, "it needs more")
	j.limit, j.arch = 227<<10, 89
	_, err = choose(j)
	assert.Error(t, err, "not on Ada")
	j.tile, j.tensorCores, j.limit = "256x128", false, 48<<10
	got, err = choose(j)
	require.NoError(t, err, "dp4a needs less")
	assert.LessOrEqual(t, got.tile.shared(false), 48<<10)
	j = h200(4096, 4096, 4096)
	j.narrow = true
	got, err = choose(j)
	require.NoError(t, err)
	assert.True(t, got.tile.narrow)
}
