package analysis

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/internal/strictyaml"
)

// Device is what a device file says of a machine, from which the time of a plan is predicted: of each fused operator the longer of its
// arithmetic and its memory traffic, and an overhead, one after another; and of each tensor that is read in another format than it stands
// in the conversion.
type Device struct {
	Name string `yaml:"name"`
	Doc  string `yaml:"doc"`
	// GOPS are the speeds by format of arithmetic (fp32, fp16, bf16, int16, int8, int4, e4m3, ...), in 10^9 operations a second; a
	// multiply-accumulate is two. What has no speed is computed in the next wider format that has one.
	GOPS map[string]float64 `yaml:"gops"`
	// Read says how fast data of a size are moved, by ascending size; more than the last moves as fast as that.
	Read []ReadSpeed `yaml:"read"`
	// BorderNS is what converting one element between formats takes beside its memory traffic, in nanoseconds; OverheadUS what starting an
	// operator takes, in microseconds.
	BorderNS   float64 `yaml:"border_ns"`
	OverheadUS float64 `yaml:"overhead_us"`

	SHA256 string `yaml:"-"` // of the file, in hexadecimal digits
}

// ParseDevice reads a device file. A key that does not exist is an error that names its line.
func ParseDevice(text []byte) (*Device, error) {
	var d Device
	if err := strictyaml.Decode(text, &d, strictyaml.Limits{What: "a device file", Bytes: 1 << 20}); err != nil {
		return nil, fmt.Errorf("device file: %s", strictyaml.OneLine(err))
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("device file: %w", err)
	}
	sum := sha256.Sum256(text)
	d.SHA256 = hex.EncodeToString(sum[:])
	return &d, nil
}

func (d *Device) check() error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	switch {
	case d.Name == "":
		return fmt.Errorf("it has no name")
	case len(d.GOPS) == 0:
		return fmt.Errorf("gops: no speed of any format")
	case len(d.Read) == 0:
		return fmt.Errorf("read: no speed of memory")
	case !(d.BorderNS >= 0) || math.IsInf(d.BorderNS, 0):
		return fmt.Errorf("border_ns: %g is not a time", d.BorderNS)
	case !(d.OverheadUS >= 0) || math.IsInf(d.OverheadUS, 0):
		return fmt.Errorf("overhead_us: %g is not a time", d.OverheadUS)
	}
	names := make([]string, 0, len(d.GOPS))
	for name := range d.GOPS {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, ok := formatNamed(name); !ok {
			return fmt.Errorf("gops: there is no format %q: fp32, fp16, bf16, tf32, int2 to int16, e4m3, e5m2, e2m1, nf4", name)
		}
		if !positive(d.GOPS[name]) {
			return fmt.Errorf("gops: %s: %g is not a speed", name, d.GOPS[name])
		}
	}
	for i, r := range d.Read {
		if !positive(r.GBps) || r.Bytes <= 0 {
			return fmt.Errorf("read: %d bytes at %g GB/s", r.Bytes, r.GBps)
		}
		if i > 0 && r.Bytes <= d.Read[i-1].Bytes {
			return fmt.Errorf("read: sizes have to ascend, and %d follows %d", r.Bytes, d.Read[i-1].Bytes)
		}
	}
	return nil
}

// YAML writes a device file.
func (d *Device) YAML() []byte {
	var b bytes.Buffer
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	fmt.Fprintf(&b, "name: %s\ndoc: %s\ngops:\n", strconv.Quote(d.Name), strconv.Quote(d.Doc))
	for _, f := range numberFormats {
		if x, ok := d.GOPS[f.name]; ok {
			fmt.Fprintf(&b, "  %s: %s\n", f.name, number(x))
		}
	}
	b.WriteString("read:\n")
	for _, r := range d.Read {
		fmt.Fprintf(&b, "  - {bytes: %d, gbps: %s}\n", r.Bytes, number(r.GBps))
	}
	fmt.Fprintf(&b, "border_ns: %s\noverhead_us: %s\n", number(d.BorderNS), number(d.OverheadUS))
	return b.Bytes()
}

// speed is how fast the device computes in a format, in 10^9 operations a second: its own speed, else that of the next wider format of the
// kind that has one, else of the narrowest float that holds its numbers.
func (d *Device) speed(f numberFormat) (gops float64, ok bool) {
	var instead []string
	switch {
	case f.integer:
		for bits := f.bits; bits <= 16; bits++ {
			instead = append(instead, "int"+strconv.Itoa(bits))
		}
	case f.bits <= 8:
		instead = []string{f.name}
	case f.bits <= 16 || f.name == "tf32":
		return d.first(f.name, "fp32")
	default:
		return d.first(f.name)
	}
	if f.bits <= 8 {
		instead = append(instead, "fp16", "bf16")
	}
	return d.first(append(instead, "fp32")...)
}

func (d *Device) first(names ...string) (float64, bool) {
	for _, name := range names {
		if x, ok := d.GOPS[name]; ok {
			return x, true
		}
	}
	return 0, false
}

// move is how long moving so many bytes takes, in seconds.
func (d *Device) move(bytes float64) float64 {
	r := Roofline{Read: d.Read}
	return bytes / r.speed(bytes) / 1e9
}

// Roofline is what the device file says that the machine can do at most. A device without float32 has none: what INT8 gains is beside it.
func (d *Device) Roofline() (Roofline, error) {
	float, _ := formatNamed("fp32")
	codes, _ := formatNamed("int8")
	r := Roofline{Device: d.String(), Read: slices.Clone(d.Read), FloatPeak: "fp32", IntegerPeak: "int8"}
	var ok bool
	if r.FloatGOPS, ok = d.speed(float); !ok {
		return r, fmt.Errorf("%s: gops: no speed of fp32, which a roofline compares int8 with", d)
	}
	r.IntegerGOPS, _ = d.speed(codes)
	return r, nil
}

// Conversion is how long converting so many elements between formats of so many bits takes, in seconds.
func (d *Device) Conversion(elements int64, from, to int) float64 {
	return float64(elements)*d.BorderNS*1e-9 + d.move(float64(elements*int64(from+to))/8)
}

// String names the device and the file.
func (d *Device) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s (device file %.12s)", d.Name, d.SHA256))
}
