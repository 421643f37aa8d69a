package cpu_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
)

// Random programs give the same integers on the reference and on the CPU: every shape, layout and instruction set, thread counts
// 1, 2 and 7, and every profile that lowers them. QWB_RANDOM is how many networks to try.
func TestCPURandom(t *testing.T) {
	count := 60
	if n, err := strconv.Atoi(os.Getenv("QWB_RANDOM")); err == nil {
		count = n
	}
	first, _ := strconv.ParseUint(os.Getenv("QWB_RANDOM_FIRST"), 10, 64)
	list := backends()
	compared, programs := 0, 0
	for seed := range uint64(count) {
		seed += first
		text := lowertest.Random(seed, 0)
		tg := lowertest.RandomTarget(seed)
		g, set, feeds := lowertest.ConfiguredFor(t, text, &tg)
		if seed%2 == 1 {
			lowertest.Disturb(t, seed, g, set)
		}
		for i, pr := range qmath.Profiles() {
			if (uint64(i)+seed)%4 != 0 && !longtest.Wanted(t) {
				continue
			}
			p, err := lower.Compile(g, set, &tg, pr)
			if err != nil {
				continue // this profile has no form for something in it
			}
			some := list[(int(seed)+i)%len(list):][:1]
			if !t.Run(strconv.FormatUint(seed, 10)+"/"+pr.Name, func(t *testing.T) {
				compared += programtest.Equal(t, p, feeds, some, []int{1, 2, 7}[(int(seed)+i)%3])
			}) {
				t.Fatalf("%s on %s:\n%s", tg.Name, some[0].Name, text)
			}
			programs++
		}
	}
	t.Logf("%d programs, %d integers", programs, compared)
	require.Positive(t, programs)
}
