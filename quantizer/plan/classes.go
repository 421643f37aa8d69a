package plan

import "math"

// Classes says which classes labelled samples are of.
type Classes struct {
	Labelled int `json:"labelled"`     // samples with a label
	Seen     int `json:"seen"`         // classes among them
	Of       int `json:"of,omitempty"` // classes that the model knows, 0 if its output does not say
	Least    int `json:"least"`        // samples of the class that has fewest, of those seen
	Most     int `json:"most"`         // samples of the class that has most
}

// ClassesOf counts the samples by class; nil where there are none.
func ClassesOf(counts map[int]int, of int) *Classes {
	if len(counts) == 0 {
		return nil
	}
	c := &Classes{Seen: len(counts), Of: of, Least: math.MaxInt}
	for _, n := range counts {
		c.Labelled += n
		c.Least, c.Most = min(c.Least, n), max(c.Most, n)
	}
	return c
}

// Expected is how many classes as many samples have on average that are drawn at random, all classes being equally frequent.
func (c *Classes) Expected() float64 {
	return float64(c.Of) * -math.Expm1(float64(c.Labelled)*math.Log1p(-1/float64(c.Of)))
}

// Lacking reports whether far fewer classes are there than a random choice would have: fewer than four fifths.
func (c *Classes) Lacking() bool { return c.Of > 0 && 5*float64(c.Seen) < 4*c.Expected() }
