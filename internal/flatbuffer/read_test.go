package flatbuffer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSharedTables: a small file may name one table many times; what it describes is bounded by its size.
func TestSharedTables(t *testing.T) {
	r := New(make([]byte, 100), 10)
	require.True(t, r.Spend(10))
	require.False(t, r.Spend(1))
	require.ErrorContains(t, r.Err(), "describes much more than its 100 bytes hold")
}

// file is a table whose fields 0 and 1 are vectors of 3 int16 and of one string, both in ten bytes.
var file = []byte{
	12, 0, 0, 0, // the table's place
	8, 0, 12, 0, 4, 0, 8, 0, // its fields: 8 bytes of them, 12 of the table, where the two stand
	8, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0, // the table: back to the fields, two offsets
	3, 0, 0, 0, 1, 0, 0xfe, 0xff, 3, 0, // three numbers
	0, 0,
	1, 0, 0, 0, 4, 0, 0, 0, // one string
	2, 0, 0, 0, 'a', 'b',
}

// TestOffsets: what stands in a file, and that no cut of it is read beyond its end.
func TestOffsets(t *testing.T) {
	v := New(file, 100).Root()
	require.Equal(t, []int{1, -2, 3}, v.Ints(0, 2, true))
	require.Equal(t, []string{"ab"}, v.Texts(1))
	require.Len(t, v.Bytes(0, 2), 6)
	require.False(t, v.Has(2))
	require.Zero(t, v.Child(2).Text(0), "fields of an absent table are absent")
	require.NoError(t, v.r.Err())
	for n := range file {
		r := New(file[:n], 100)
		v := r.Root()
		v.Ints(0, 2, true)
		require.Empty(t, v.Texts(1))
		require.ErrorContains(t, r.Err(), "leads out of the file", "%d bytes", n)
	}
	r := New(file, 3)
	r.Root().Ints(0, 2, true)
	require.ErrorContains(t, r.Err(), "describes much more")
}
