package weights

import (
	"fmt"

	"qwb/graph/checkpoint"
	"qwb/quantizer/tqc"
)

// DefaultGroup is the size of groups before it is halved: llama2.c's.
const DefaultGroup = 64

// matrices are the roles that are quantized, with tied classifiers as embeddings.
var matrices = [...]checkpoint.Role{checkpoint.Embedding, checkpoint.Query, checkpoint.Key, checkpoint.Output, checkpoint.Gate, checkpoint.Down}

// Groups chooses how many neighbours share a scale: what was asked for, or, for 0, 64 halved until it divides every row of every matrix.
// A size that was asked for and does not divide every row is an error, but where straddle is set and it divides the number of elements
// of every matrix: then groups go on from one row to the next, with a warning.
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
		return 0, nil, fmt.Errorf("export: groups of %d elements do not divide the rows of %d elements of %s", size, cols, *cut)
	}
	for _, r := range matrices {
		if rows, cols := c.Shape(r); rows*cols%size != 0 {
			return 0, nil, fmt.Errorf("export: groups of %d elements do not divide the %d elements of %s", size, rows*cols, r)
		}
	}
	return size, append(warnings, tqc.Warning{Value: float64(size),
		Text: fmt.Sprintf("groups of %d elements do not divide the rows of %d elements of %s: they straddle rows", size, cols, *cut)}), nil
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
