package open

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"qwb/export"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Targets are the platforms of the catalog: those handed in, else the built-in ones.
func (c *Catalog) Targets() target.Catalog {
	if len(c.Platforms.All) == 0 {
		return target.Builtin()
	}
	return c.Platforms
}

// Target returns a platform that models are quantized for: by its name, or from the file of one (mynpu.yaml, ./mynpu.yaml). A name
// that does not exist is a fault.UsageError.
func (p *Project) Target(platform string) (*target.Target, error) {
	if IsTargetFile(platform) {
		return p.readTarget(platform)
	}
	t, err := p.Catalog.Targets().Find(platform)
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	return t, nil
}

// KnownTarget is Target that finds the targets of other tools' models as well.
func (p *Project) KnownTarget(platform string) (*target.Target, error) {
	if IsTargetFile(platform) {
		return p.readTarget(platform)
	}
	t, err := p.Catalog.Targets().Known(platform)
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	return t, nil
}

// IsTargetFile reports whether what was given as a platform is a file: it ends in .yaml, .yml or .json, or names a folder.
func IsTargetFile(platform string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(platform))) || strings.ContainsAny(platform, `/\`)
}

func (p *Project) readTarget(file string) (*target.Target, error) {
	b, err := fs.ReadFile(p.Files(), file)
	if err != nil {
		return nil, fmt.Errorf("platform: %w", err)
	}
	t, err := target.Parse(b)
	if err != nil {
		return nil, &fault.FileError{File: file, Err: err}
	}
	if _, err := p.Catalog.Targets().With(t); err != nil {
		return nil, &fault.FileError{File: file, Err: err}
	}
	return t, nil
}

// PlannedTarget returns the platform of a plan: the catalog's, or the one that the plan defines itself. sum is the hash that the plan
// has of it, definition its YAML; either may be empty.
func (p *Project) PlannedTarget(name, sum, definition string) (*target.Target, error) {
	if definition == "" {
		return p.Catalog.Targets().Known(name)
	}
	t, err := target.Parse([]byte(definition))
	if err != nil {
		return nil, err
	}
	if t.Name != name || sum != "" && t.Hash() != sum {
		return nil, fmt.Errorf("the plan is for platform %q, hash %.12s, and defines %q, hash %.12s", name, sum, t.Name, t.Hash())
	}
	return t, nil
}

// Definition is what a plan has to keep of a platform: nothing of a built-in one, the YAML of others.
func Definition(t *target.Target) string {
	if target.IsBuiltin(t.Name) {
		return ""
	}
	return string(t.YAML())
}

// TargetCheck is what there is to say of a platform's file that can be read.
type TargetCheck struct {
	Name      string `json:"name"`
	SHA256    string `json:"sha256"`
	Operators int    `json:"operators"`
	Builtin   bool   `json:"builtin"` // it is a platform of the package
	// Contradictions are what cannot all be true of it, a line each.
	Contradictions []string `json:"contradictions"`
	Notes          []string `json:"notes"` // what holds all the same: operators that are simulated
}

// CheckTarget reads a platform and holds its tables against its arithmetic, against what integer programs can compute and against the
// formats of the catalog. A platform that contradicts itself is a fault.CheckError; what it contradicts itself in is there then.
func (p *Project) CheckTarget(platform string) (*TargetCheck, error) {
	t, err := p.KnownTarget(platform)
	if err != nil {
		return nil, err
	}
	list, notes, err := lower.Contradictions(t)
	if err != nil {
		return nil, err
	}
	c := &TargetCheck{Name: t.Name, SHA256: t.Hash(), Operators: len(t.Ops), Builtin: target.IsBuiltin(t.Name),
		Contradictions: append([]string{}, list...),
		Notes:          append([]string{}, notes...)}
	if t.Format != "" {
		if f, err := export.ForPlatform(p.Catalog.Formats, t.Name, t.Format); err != nil {
			c.Contradictions = append(c.Contradictions, err.Error())
		} else if f.From == export.Checkpoint {
			c.Contradictions = append(c.Contradictions, fmt.Sprintf("format %s holds checkpoints, no plans", f.Name))
		}
	}
	if r := t.Activation.Rounding; r != qmath.HalfEven && !c.Builtin {
		c.Notes = append(c.Notes, fmt.Sprintf("activations are rounded %s, and QuantizeLinear half to even: "+
			"Q/DQ files (format onnx) of its plans are refused", r))
	}
	if n := len(c.Contradictions); n > 0 {
		return c, fault.Checkf("platform %s contradicts itself in %s", t.Name, plain.Count(n, "point"))
	}
	return c, nil
}

// TargetInfo is one platform in a list.
type TargetInfo struct {
	Name       string `json:"name"`
	Doc        string `json:"doc"`
	Placement  string `json:"placement"`
	Profile    string `json:"profile"`
	SHA256     string `json:"sha256"`
	Foreign    bool   `json:"foreign"` // of models that other tools have quantized: nothing is calibrated for it
	Operators  int    `json:"operators"`
	Activation string `json:"activation"` // the default schemes
	Weight     string `json:"weight"`
	Bias       string `json:"bias"`
	// Engine is who reads the files, empty where nobody in particular is known; EngineKnown says whether the integers of the profile were ever
	// held to its own, Experimental why no engine has opened the files (empty: one has, or the format says what there is to say).
	Engine       string `json:"engine"`
	EngineKnown  bool   `json:"engine_known"`
	Experimental string `json:"experimental,omitempty"`
	Group        string `json:"group"` // whom it is for, in a few words
}

// ListTargets lists the platforms of the catalog.
func (c *Catalog) ListTargets() []TargetInfo {
	var list []TargetInfo
	all := c.Targets()
	for i, group := range [][]*target.Target{all.All, all.Foreign} {
		for _, t := range group {
			info := TargetInfo{Name: t.Name, Doc: t.Doc, Placement: t.Placement.String(), Profile: t.Profile, SHA256: t.Hash(), Foreign: i == 1,
				Operators: len(t.Ops), Bias: "float"}
			e := target.EngineOf(t.Name)
			info.Engine, info.EngineKnown, info.Experimental = e.Name, e.Knows(t.Profile), e.Unread
			info.Group = groupOf(t, e.Unread != "")
			s := t.Defaults()
			info.Activation, info.Weight = s.Activation[0].String(), s.Weight[0].String()
			if len(s.Bias) > 0 {
				info.Bias = s.Bias[0].String()
			}
			list = append(list, info)
		}
	}
	return list
}

// groupOf says whom a target is for, by what it can do.
func groupOf(t *target.Target, unread bool) string {
	switch {
	case !target.IsBuiltin(t.Name):
		return "your own"
	case t.Float == target.FloatAbsent:
		return "chips without float"
	case unread:
		return "experimental: no engine has opened the files"
	case t.Activation.Policy.Has(tqc.PowerOf2):
		return "NPUs, FPGAs, microcontrollers: scales are powers of two"
	}
	return "engines"
}
