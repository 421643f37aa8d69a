package target

// Placement says where the quantizers of a target stand.
type Placement uint8

const (
	// WeightedInputs: at the inputs of weighted operators, and at the skip branch of a residual Add. An Add that is not the end
	// of a residual branch stays float.
	WeightedInputs Placement = iota
	// AllInputs: at every input of weighted and arithmetic operators. What they compute leaves them as float.
	AllInputs
	// Everywhere: at the inputs and outputs of every operator that runs on integers.
	Everywhere
)

var placementNames = names{"weighted-inputs", "all-inputs", "everywhere"}

func (p Placement) String() string { return placementNames.name(int(p)) }

// Outputs reports whether quantizers stand at outputs as well.
func (p Placement) Outputs() bool { return p == Everywhere }

// Residual reports whether an Add is quantized as the end of a residual branch only.
func (p Placement) Residual() bool { return p == WeightedInputs }

// MarshalText and UnmarshalText use the names.
func (p Placement) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (p *Placement) UnmarshalText(b []byte) error { return read(placementNames, p, "placement", b) }
