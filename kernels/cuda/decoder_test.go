package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecoderParameters(t *testing.T) {
	assert.EqualValues(t, unsafe.Sizeof(quantizeGroupsParams{}), paramBytes(t, "groups", "quantize_groups"))
	for _, entry := range []string{"groups_codes", "groups_floats", "groups_plain"} {
		assert.EqualValues(t, unsafe.Sizeof(groupsProductParams{}), paramBytes(t, "groups", entry), entry)
	}
	assert.EqualValues(t, unsafe.Sizeof(embedParams{}), paramBytes(t, "groups", "embed_groups"))
	assert.EqualValues(t, unsafe.Sizeof(rotateParams{}), paramBytes(t, "decoder", "rotate"))
	assert.EqualValues(t, unsafe.Sizeof(attendParams{}), paramBytes(t, "decoder", "attend"))
	for _, entry := range []string{"add_to", "swiglu"} {
		assert.EqualValues(t, unsafe.Sizeof(pairwiseParams{}), paramBytes(t, "decoder", entry), entry)
	}
	assert.EqualValues(t, unsafe.Sizeof(pickRowsParams{}), paramBytes(t, "decoder", "pick_rows"))
	assert.EqualValues(t, PlaceBytes, unsafe.Sizeof(Place{}))
}

// Shapes that do not fit their buffers are refused before anything is launched.
func TestDecoderRefuses(t *testing.T) {
	s := &Stream{Device: &Device{SharedPerBlock: 48 << 10, Name: "a device"}}
	m := &GroupMatrix{Rows: 4, Cols: 8, Size: 8, Bits: 8, Codes: Buffer{Bytes: 32}, Scales: Buffer{Bytes: 12}}
	require.ErrorContains(t, MulGroups(s, Buffer{}, m, GroupRows{}), "4 x 8 codes of 8 bits in groups of 8 are not in 32 and 12 bytes")
	m.Scales.Bytes = 16
	require.ErrorContains(t, MulGroups(s, Buffer{Bytes: 12}, m, GroupRows{N: 1, Floats: Buffer{Bytes: 32}}), "do not fit")
	require.ErrorContains(t, EmbedGroups(s, Buffer{Bytes: 32}, m, Buffer{}, 1), "do not fit")
	require.ErrorContains(t, QuantizeGroups(s, GroupRows{N: 2}, Buffer{Bytes: 64}, 8, 4), "do not go")
	h := Heads{Queries: 3, Shared: 2, Dim: 8}
	require.ErrorContains(t, Rotate(s, Buffer{}, Buffer{}, Buffer{}, Buffer{}, 1, h, Rotary{}), "do not fit")
	h = Heads{Queries: 2, Shared: 2, Dim: 8}
	q, places := Buffer{Bytes: 64}, Buffer{Bytes: PlaceBytes}
	require.ErrorContains(t, Attend(s, q, q, places, 1, h, 1, 20000), "20000 positions are more than the 12024 that a "+
		"device attends to at once")
	require.ErrorContains(t, AddTo(s, Buffer{Bytes: 8}, Buffer{Bytes: 4}, 2, 2), "are not in")
	require.ErrorContains(t, PickRows(s, Buffer{Bytes: 8}, Buffer{}, Buffer{}, 1, 2), "do not fit")
}

func TestPackGroups4(t *testing.T) {
	codes := []int8{-8, -7, -1, 0, 1, 2, 6, 7}
	packed := PackGroups4(append([]int8(nil), codes...))
	require.Len(t, packed, 4)
	for i, c := range codes {
		assert.EqualValues(t, c+8, uint8(packed[i%4])>>(4*(i/4))&15, "code %d", i)
	}
}
