package target

import (
	"fmt"
	"slices"
	"strings"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Catalog is the targets that somebody knows. It is a value that is handed down; nothing is registered.
type Catalog struct {
	All []*Target // those that models are quantized for
	// Foreign are the targets of models that other tools have quantized: import finds them, nothing is calibrated for them.
	Foreign []*Target
}

// Builtin returns the targets of this package.
func Builtin() Catalog {
	return Catalog{All: []*Target{&TRTInt8, &ONNXRuntime, &OpenVINO, &OpenVINOAMX, &Pow2, &TFLiteInt8, &TFLite16x8, &NCNNInt8, &MNNInt8,
		&QNN, &AIMET, &SNPE, &RKNN, &Tengine, &Ascend, &PPLCuda, &PPLDsp, &PPLDspTI, &MetaxT, &MetaxC, &Graphcore,
		&TRT10, &TRT11, &TRTFP8,
		&ESPDLInt8, &ESPDLInt8S3, &ESPDLInt8C, &ESPDLInt16, &ESPDLInt16S3, &ESPDLInt16C, &XInt8, &FPGA, &NXP,
		&Pow2LUT, &XInt8LUT, &FPGALUT, &NXPLUT}, Foreign: []*Target{&TFLite, &ONNX}}
}

// With returns a catalog that has t as well, before a target of the same name. The names of built-in targets cannot be taken over.
func (c Catalog) With(t *Target) (Catalog, error) {
	if err := t.Validate(); err != nil {
		return c, err
	}
	if IsBuiltin(t.Name) && !isBuiltin(t) {
		return c, fmt.Errorf("platform %q is built in and this one is another: give it another name", t.Name)
	}
	c.All = append(slices.Clone(c.All), t)
	for i, other := range c.All[:len(c.All)-1] {
		if other.Name == t.Name {
			c.All = slices.Delete(c.All, i, i+1)
			break
		}
	}
	return c, nil
}

// Known returns the target called name, foreign ones included.
func (c Catalog) Known(name string) (*Target, error) {
	for _, t := range c.Foreign {
		if t.Name == name {
			return t, nil
		}
	}
	return c.Find(name)
}

// Find returns the target called name that models can be quantized for.
func (c Catalog) Find(name string) (*Target, error) {
	for _, t := range c.All {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("unknown platform %q: one of %s", name, strings.Join(c.Names(), ", "))
}

// Likely lists the targets with Import that a file with such integers may be meant for: first those whose activations have exactly
// these by default, then those that can have them, then those that take anything. unsigned: some of its activations are unsigned;
// shifted: some have a zero point that is not 0. Of each kind those that are not built in come first: who brings one along works for it.
func (c Catalog) Likely(unsigned, shifted bool) []*Target {
	fits := func(s tqc.Scheme) bool {
		return s.Type == qmath.Integers && s.Bits == 8 && s.Unsigned == unsigned && (unsigned || s.Asymmetric == shifted)
	}
	var first, can, any []*Target
	all := slices.Concat(c.All, c.Foreign)
	own := slices.DeleteFunc(slices.Clone(all), func(t *Target) bool { return IsBuiltin(t.Name) })
	all = append(own, slices.DeleteFunc(all, func(t *Target) bool { return !IsBuiltin(t.Name) })...)
	for _, t := range all {
		list := t.Defaults().Activation
		switch {
		case !t.Import || len(list) == 0:
		case t.Export.Open:
			any = append(any, t)
		case fits(list[0]):
			first = append(first, t)
		case slices.ContainsFunc(list, fits):
			can = append(can, t)
		}
	}
	return slices.Concat(first, can, any)
}

// Names lists the targets that models can be quantized for.
func (c Catalog) Names() []string {
	var list []string
	for _, t := range c.All {
		list = append(list, t.Name)
	}
	return list
}

// IsBuiltin reports whether a target of this package has the name.
func IsBuiltin(name string) bool {
	_, err := Builtin().Known(name)
	return err == nil
}

// isBuiltin reports whether t says what the target of this package says that has its name.
func isBuiltin(t *Target) bool {
	own, err := Builtin().Known(t.Name)
	return err == nil && own.Hash() == t.Hash()
}

// The package's own catalog, for callers that are handed none.
var (
	All     = Builtin().All
	Foreign = Builtin().Foreign
)

// Known is Builtin().Known.
func Known(name string) (*Target, error) { return Builtin().Known(name) }

// Find is Builtin().Find.
func Find(name string) (*Target, error) { return Builtin().Find(name) }
