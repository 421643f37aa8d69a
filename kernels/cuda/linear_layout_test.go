package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// TestLinearParameters: kernels have parameters of the size of the structs that mirror them.
func TestLinearParameters(t *testing.T) {
	sizes := map[string]map[string]uintptr{
		"linear": {"gather": unsafe.Sizeof(Gather{}), "pack": unsafe.Sizeof(Packing{}), "widen": unsafe.Sizeof(Widening{}),
			"row_sums": unsafe.Sizeof(RowSums{}), "finish_s32": unsafe.Sizeof(Finish{}), "finish_s64": unsafe.Sizeof(Finish{})},
		"direct": {"direct_s8": unsafe.Sizeof(Direct{}), "direct_u16": unsafe.Sizeof(Direct{})},
		"depthwise": {"few_s8": unsafe.Sizeof(Depthwise{}), "some_u8": unsafe.Sizeof(Depthwise{}), "many_u8": unsafe.Sizeof(Depthwise{}),
			"three1_s8": unsafe.Sizeof(Depthwise{}), "three2_u8": unsafe.Sizeof(Depthwise{})},
	}
	for _, tile := range Tiles() {
		sizes["product_"+tile.Name] = map[string]uintptr{"plain_s8": unsafe.Sizeof(Tiled{}), "window_u8": unsafe.Sizeof(Tiled{})}
	}
	for file, entries := range sizes {
		for entry, size := range entries {
			assert.EqualValues(t, size, paramBytes(t, file, entry), "%s.%s", file, entry)
		}
	}
}
