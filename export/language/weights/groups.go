package weights

import (
	"fmt"
	"strconv"
	"strings"

	"qwb/graph/language/checkpoint"
	"qwb/quantizer/tqc"
)

// DefaultGroup is the size of groups before it is halved: llama2.c's.
const DefaultGroup = 64

// matrices are the roles that are quantized, with tied classifiers as embeddings.
var matrices = [...]checkpoint.Role{checkpoint.Embedding, checkpoint.Query, checkpoint.Key, checkpoint.Output, checkpoint.Gate,
	checkpoint.Down}

// Groups chooses how many neighbours share a scale: what was asked for, or, for 0, 64 halved until it divides every row of every matrix.
// A size that was asked for and does not divide every row is an error. With straddle set, and where it divides the number of elements of
// every matrix, it is a warning instead: groups then go on from one row to the next.
func Groups(c *checkpoint.Config, asked int, straddle bool) (size int, warnings []tqc.Warning, err error) {
	if asked < 0 {
		return 0, nil, fmt.Errorf("export: groups of %d elements", asked)
	}
	size = asked
	if asked == 0 {
		var cut *checkpoint.Role
		for size = DefaultGroup; cutRow(c, size) != nil; size /= 2 {
			cut = cutRow(c, size)
		}
		if cut != nil {
			_, cols := c.Shape(*cut)
			warnings = append(warnings, tqc.Warning{Value: float64(size),
				Text: fmt.Sprintf("groups of %d elements: groups of %d do not divide the rows of %d elements of %s", size, 2*size, cols, *cut)})
		}
		return size, warnings, nil
	}
	cut := cutRow(c, size)
	if cut == nil {
		return size, nil, nil
	}
	_, cols := c.Shape(*cut)
	if !straddle {
		return 0, nil, fmt.Errorf("export: groups of %d elements do not divide the rows of %d elements of %s; sizes that fit: %s", size, cols,
			*cut, fitting(c))
	}
	for _, r := range matrices {
		if rows, cols := c.Shape(r); rows*cols%size != 0 {
			return 0, nil, fmt.Errorf("export: groups of %d elements do not divide the %d elements of %s; sizes that fit: %s", size, rows*cols,
				r, fitting(c))
		}
	}
	return size, append(warnings, tqc.Warning{Value: float64(size), Text: Straddling(c, size)}), nil
}

// Straddling says in one sentence that groups of this size go on from one row to the next, what an engine makes of that, and which sizes
// fit. It returns "" for a size that divides every row.
func Straddling(c *checkpoint.Config, size int) string {
	cut := cutRow(c, size)
	if cut == nil {
		return ""
	}
	_, cols := c.Shape(*cut)
	return fmt.Sprintf("groups of %d elements do not divide the rows of %d elements of %s, and no engine computes groups that straddle "+
		"rows: runq of llama2.c leaves out the last %d elements of each row and multiplies others by the scale of another group; sizes "+
		"that fit: %s", size, cols, *cut, cols%size, fitting(c))
}

// fitting lists sizes of groups that divide every row of every matrix: the six largest, the largest first.
func fitting(c *checkpoint.Config) string {
	var sizes []string
	_, widest := c.Shape(matrices[0])
	for size := widest; size > 0 && len(sizes) < 6; size-- {
		if cutRow(c, size) == nil {
			sizes = append(sizes, strconv.Itoa(size))
		}
	}
	return strings.Join(sizes, ", ")
}

// cutRow returns the first matrix whose rows are not whole groups, nil if there is none.
func cutRow(c *checkpoint.Config, size int) *checkpoint.Role {
	for i := range matrices {
		if _, cols := c.Shape(matrices[i]); cols%size != 0 {
			role := matrices[i]
			return &role
		}
	}
	return nil
}
