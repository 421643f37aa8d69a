package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"qwb/kernels/cuda/driver"
)

func TestObserveParameters(t *testing.T) {
	for entry, size := range map[string]uintptr{"extremes_of_runs": unsafe.Sizeof(lookParams{}),
		"extremes_of_rows": unsafe.Sizeof(lookParams{}),
		"settle":           unsafe.Sizeof(struct{ tally driver.Ptr }{}), "count": unsafe.Sizeof(countParams{}),
		"leaders": unsafe.Sizeof(rowsParams{})} {
		assert.EqualValues(t, size, paramBytes(t, "observe", entry), entry)
	}
}
