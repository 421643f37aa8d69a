package cuda_test

import (
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda/emulate"
)

// ordering is what orders something.
var ordering = regexp.MustCompile(`^\s*(@\S+ )?(bar\.|barrier\.|cp\.async\.(commit|wait)|wgmma\.(fence|commit|wait)|fence\.proxy)`)

// needless are barriers that no kernel needs, by their place in the PTX: in products behind the loop, whose last step has one, and behind
// the only pass of outputs; in the observers at the end of a sample, and the last of extremes_of_rows, behind which threads read only what
// they wrote; in softmax before shared memory is first written.
var needless = regexp.MustCompile(`^(product_\S+\.sm_80 \w+ bar\.sync 3|product_32x64\.sm_61 \w+ bar\.sync 4|` +
	`observe\.sm_61 (extremes_of_rows bar\.sync (1|10)|extremes_of_runs bar\.sync 1)|` +
	`softmax\.sm_61 (softmax bar\.sync 1|softmax_bytes_\w+ bar\.sync 2))$`)

// TestOmissions runs the tests of all kernels that have a barrier, fence, commit or wait, and leaves out each of these once
// (emulate.Omissions). It takes minutes: QWB_OMISSIONS=1 asks for it.
func TestOmissions(t *testing.T) {
	if os.Getenv("QWB_OMISSIONS") == "" {
		t.Skip("QWB_OMISSIONS=1 asks for it")
	}
	t.Setenv("QWB_GPU", "off")
	tries := &emulate.Omissions{Most: 40}
	cudatest.Omissions = tries
	defer func() { cudatest.Omissions = nil }()
	for name, test := range map[string]func(*testing.T){
		"ReduceCodes":                TestReduceCodes,
		"MeanCodes":                  TestMeanCodes,
		"SoftmaxCodes":               TestSoftmaxCodes,
		"GatherCodes":                TestGatherCodes,
		"GatherCodesInSteps":         TestGatherCodesInSteps,
		"TurnCodes":                  TestTurnCodes,
		"MapCodes":                   TestMapCodes,
		"AddAndMultiplyCodes":        TestAddAndMultiplyCodes,
		"SelectCodes":                TestSelectCodes,
		"MaxPoolCodes":               TestMaxPoolCodes,
		"AveragePoolCodes":           TestAveragePoolCodes,
		"FloatProduct":               TestFloatProduct,
		"FloatProductsOfABatch":      TestFloatProductsOfABatch,
		"FloatConv":                  TestFloatConv,
		"FloatPools":                 TestFloatPools,
		"FloatRows":                  TestFloatRows,
		"FloatGroupNorm":             TestFloatGroupNorm,
		"FloatReductions":            TestFloatReductions,
		"Moves":                      TestMoves,
		"MulGroups":                  TestMulGroups,
		"TiledWindows":               TestTiledWindows,
		"AddCodesToAFarSmallerScale": TestAddCodesToAFarSmallerScale,
		"Windows":                    TestWindows,
		"TransposedWindows":          TestTransposedWindows,
		"Tiles":                      TestTiles,
		"WideSums":                   TestWideSums,
		"Stacks":                     TestStacks,
		"Epilogues":                  TestEpilogues,
		"RandomLinears":              TestRandomLinears,
		"Observe":                    TestObserve,
		"CountNear":                  TestCountNear,
		"ObserveLeaders":             TestObserveLeaders,
		"Gram":                       TestGram,
		"PeakKernelsCompute":         TestPeakKernelsCompute,
		"WarpgroupTiles":             TestWarpgroupTiles,
		"WarpgroupWindows":           TestWarpgroupWindows,
		"WarpgroupExtremes":          TestWarpgroupExtremes,
	} {
		t.Run(name, test)
	}
	names, all := map[uint32]string{}, map[string]int{} // in the PTX, by kernel
	place := map[string]int{}                           // of a barrier among those of its kernel, by line
	files, err := filepath.Glob("ptx/*.gz")
	require.NoError(t, err)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		names[crc32.ChecksumIEEE(text)] = strings.TrimSuffix(filepath.Base(name), ".ptx.gz")
		kernel, bars := "", 0
		for i, line := range strings.Split(string(text), "\n") {
			if _, entry, ok := strings.Cut(line, ".entry "); ok {
				bars = 0
				kernel = strings.TrimSuffix(entry, "(")
			} else if ordering.MatchString(line) {
				all[names[crc32.ChecksumIEEE(text)]+" "+kernel]++
				if strings.Contains(line, "bar.sync") {
					bars++
					place[fmt.Sprint(crc32.ChecksumIEEE(text), i+1)] = bars
				}
			}
		}
	}
	counts, unnoticed := map[string][2]int{}, map[string]bool{}
	for _, o := range tries.List() {
		word := strings.Fields(o.Instruction)[0]
		if strings.Contains(o.Instruction, " with ") {
			word += " with one more"
		} else {
			all[names[o.PTX]+" "+o.Kernel]--
		}
		n := counts[word]
		n[0]++
		if o.Noticed != "" {
			n[1]++
		} else {
			unnoticed[fmt.Sprintf("%s %s %s %d", names[o.PTX], o.Kernel, word, place[fmt.Sprint(o.PTX, o.Line)])] = true
		}
		counts[word] = n
	}
	for word, n := range counts {
		t.Logf("%s: %d tried, %d noticed", word, n[0], n[1])
	}
	for name := range unnoticed {
		assert.True(t, needless.MatchString(name), "%s: not noticed", name)
	}
	t.Logf("%d are not needed", len(unnoticed))
	for kernel, n := range all {
		require.True(t, n == 0 || kernel == "decoder.sm_61 attend", "%s: %d not tried", kernel, n) // attend is tested with language models
	}
}
