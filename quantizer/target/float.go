package target

// FloatUnit says where a target computes operators that stay float.
type FloatUnit uint8

const (
	// FloatNative: the processor that computes the integers has a float unit.
	FloatNative FloatUnit = iota
	// FloatHost: another processor computes them; what they read and write is copied there and back.
	FloatHost
	// FloatAbsent: nothing does. A graph with an operator that stays float is not compiled.
	FloatAbsent
)

var floatNames = names{"native", "host", "absent"}

func (f FloatUnit) String() string { return floatNames.name(int(f)) }

// MarshalText and UnmarshalText use the names.
func (f FloatUnit) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

func (f *FloatUnit) UnmarshalText(b []byte) error { return read(floatNames, f, "float unit", b) }
