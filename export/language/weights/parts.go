package weights

import (
	"fmt"

	"qwb/graph/language/checkpoint"
)

// UntiedParts are the parts of a model with a classifier of its own, whether it has one or shares the embedding.
func UntiedParts(c *checkpoint.Config) []checkpoint.Part {
	untied := *c
	untied.Tied = false
	return untied.Parts()
}

// Blocks reports the first matrix whose rows are no multiple of n elements.
func Blocks(c *checkpoint.Config, n int, format string) error {
	if role := cutRow(c, n); role != nil {
		_, cols := c.Shape(*role)
		return fmt.Errorf("export: %s needs rows of a multiple of %d elements, those of %s have %d", format, n, *role, cols)
	}
	return nil
}
