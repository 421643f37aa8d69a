package analysis

// DiffKind says what differs.
type DiffKind string

const (
	DiffMissing   DiffKind = "missing" // an operator that only a has
	DiffExtra     DiffKind = "extra"   // an operator that only b has
	DiffDomain    DiffKind = "domain"
	DiffState     DiffKind = "state"
	DiffScheme    DiffKind = "scheme"
	DiffScale     DiffKind = "scale"
	DiffZeroPoint DiffKind = "zero point"
	DiffCodes     DiffKind = "integers" // of a weight or bias
)

// Difference is one of two configured graphs.
type Difference struct {
	Node string   `json:"node"`
	Op   string   `json:"op"`
	At   string   `json:"at,omitempty"` // in0, in1, ..., out0, ...; empty: the operator
	What DiffKind `json:"what"`
	// A and B are what the two sides have: of scales, zero points and integers, where they differ most.
	A string `json:"a,omitempty"`
	B string `json:"b,omitempty"`
	// Count of Of scales, zero points or integers differ; Largest is the largest difference, relative for scales.
	Count   int     `json:"count,omitempty"`
	Of      int     `json:"of,omitempty"`
	Largest float64 `json:"largest,omitempty"`
	// Follows says that the difference is not one of its own: both sides borrow the scale (that of a bias is input times weight, of what a
	// MaxPool gives that of its input), or the integers of a bias follow from its scale.
	Follows bool `json:"follows,omitempty"`
}

// DiffResult is what Diff found, with counts by kind: operators for Domains, Missing and Extra, tensors for States, Schemes, Scales
// and ZeroPoints, integers for Flipped.
type DiffResult struct {
	Equal       bool         `json:"equal"`
	Nodes       int          `json:"nodes"`    // operators compared
	ByPlace     bool         `json:"by_place"` // matched by their order, not by name
	Slots       int          `json:"slots"`    // inputs and outputs compared
	Domains     int          `json:"domains"`
	States      int          `json:"states"`
	Schemes     int          `json:"schemes"`
	Scales      int          `json:"scales"`
	ZeroPoints  int          `json:"zero_points"`
	Codes       int          `json:"codes"`   // integers of parameters compared
	Flipped     int          `json:"flipped"` // of these, how many differ
	Missing     int          `json:"missing"`
	Extra       int          `json:"extra"`
	Following   int          `json:"following"` // of the differences, those that follow from others
	Differences []Difference `json:"differences"`
}
