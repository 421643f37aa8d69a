package file

import (
	"io"
	"runtime"
	"slices"
)

// Piece is how many bytes are moved at a time: the collector of garbage waits for whoever moves more, and asks it so often meanwhile that
// the move takes ten times as long.
const Piece = 1 << 20

// Content is the content of a file that is in memory, in parts while it is written. The zero value is empty.
type Content struct {
	parts [][]byte
	size  int
}

// Write is that of io.Writer. It copies b and never fails.
func (c *Content) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		last := len(c.parts) - 1
		if last < 0 || len(c.parts[last]) == cap(c.parts[last]) {
			c.parts = append(c.parts, make([]byte, 0, min(max(c.size, 512, len(b)), Piece)))
			last++
		}
		room := min(cap(c.parts[last])-len(c.parts[last]), len(b))
		c.parts[last] = append(c.parts[last], b[:room]...)
		b = b[room:]
		c.size += room
	}
	return n, nil
}

// Bytes is the content in one piece, and no copy: nobody may change it.
func (c *Content) Bytes() []byte {
	if len(c.parts) > 1 {
		all := make([]byte, 0, c.size)
		for i, p := range c.parts {
			all, c.parts[i] = append(all, p...), nil
			runtime.Gosched() // the loop has no other place where the collector could stop it
		}
		c.parts = [][]byte{all}
	}
	if len(c.parts) == 0 {
		return []byte{}
	}
	return c.parts[0]
}

// CopyTo writes the content to w.
func (c *Content) CopyTo(w io.Writer) error {
	for _, p := range c.parts {
		for piece := range slices.Chunk(p, Piece) {
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
	}
	return nil
}
