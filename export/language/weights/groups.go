package weights

import (
	"cmp"
	"fmt"
	"slices"
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

// What is done where groups do not divide the rows of a matrix, besides what a format itself does, which is "".
const (
	FallbackError  = "error"
	FallbackIgnore = "ignore" // the matrix stays float
	FallbackAdjust = "adjust" // groups are halved until they divide
)

// Fallbacks are the choices of Fallback.
var Fallbacks = []string{FallbackError, FallbackIgnore, FallbackAdjust}

// FallbackDoc says what they are.
const FallbackDoc = "where groups do not divide the rows of a matrix: error, ignore (it stays float) or adjust (halve the groups)"

// Sizing says which groups are wanted, and what can be done with those that do not divide the rows of a matrix.
type Sizing struct {
	Asked    int    // 0: Default, halved without a Fallback until it divides every row
	Default  int    // 0: DefaultGroup
	Fallback string // of Fallbacks; empty: Straddle where that is possible, else an error
	Straddle bool   // groups may go on from one row to the next: a warning
	Floats   bool   // single matrices may stay float
}

// Groups chooses how many neighbours share a scale. A size that does not divide every row of every matrix is an error unless s says
// otherwise. With FallbackIgnore the matrices whose rows it does not divide are the caller's to leave in float.
func Groups(c *checkpoint.Config, s Sizing) (size int, warnings []tqc.Warning, err error) {
	if size = s.Asked; size < 0 {
		return 0, nil, fmt.Errorf("export: groups of %d elements", size)
	}
	adjust := s.Fallback == FallbackAdjust || s.Fallback == "" && size == 0
	if size == 0 {
		size = cmp.Or(s.Default, DefaultGroup)
	}
	cut := cutRow(c, size)
	if cut == nil {
		return size, nil, nil
	}
	_, cols := c.Shape(*cut)
	fail := func(format string, args ...any) (int, []tqc.Warning, error) {
		return 0, nil, fmt.Errorf("export: groups of %d elements %s; sizes that fit: %s", size, fmt.Sprintf(format, args...), fitting(c))
	}
	warn := func(size int, text string) (int, []tqc.Warning, error) {
		return size, []tqc.Warning{{Value: float64(size), Text: text}}, nil
	}
	switch {
	case adjust:
		half := size
		for ; cutRow(c, half) != nil; half /= 2 {
			size, cut = half, cutRow(c, half)
		}
		_, cols = c.Shape(*cut)
		return warn(half, fmt.Sprintf("groups of %d elements: groups of %d do not divide the rows of %d elements of %s", half, size, cols, *cut))
	case s.Fallback == FallbackIgnore && s.Floats:
		return warn(size, fmt.Sprintf("groups of %d elements do not divide the rows of %s, which stay float", size, left(c, size)))
	case s.Fallback == FallbackIgnore:
		return fail("do not divide the rows of %d elements of %s, and the format has no float matrices", cols, *cut)
	case s.Fallback != "" || !s.Straddle:
		return fail("do not divide the rows of %d elements of %s", cols, *cut)
	}
	for _, r := range matrices {
		if rows, cols := c.Shape(r); rows*cols%size != 0 {
			return fail("do not divide the %d elements of %s", rows*cols, r)
		}
	}
	return warn(size, Straddling(c, size))
}

// Prescribed checks options of a format that prescribes the size of groups: no other can be asked for, nor a fallback to another.
func (o *Options) Prescribed(size int, format string, fallbacks ...string) error {
	if o.Group != 0 && o.Group != size {
		return fmt.Errorf("export: groups of %d elements: those of %s have %d", o.Group, format, size)
	}
	if o.Fallback != "" && o.Fallback != FallbackError && !slices.Contains(fallbacks, o.Fallback) {
		return fmt.Errorf("export: --%s %s: %s prescribes groups of %d elements", Fallback.Name, o.Fallback, format, size)
	}
	return nil
}

// left lists the matrices whose rows are not whole groups.
func left(c *checkpoint.Config, size int) string {
	var names []string
	for _, r := range matrices {
		if _, cols := c.Shape(r); cols%size != 0 {
			names = append(names, fmt.Sprintf("%s (%d elements)", r, cols))
		}
	}
	return strings.Join(names, ", ")
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
