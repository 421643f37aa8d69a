package doctor

import (
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/kind"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/quantizer/target"
)

// EngineFaults lists what is known to be wrong in the engine that reads the files of a platform; version is the engine's, "" any.
func EngineFaults(j *open.Job, platform, version string) ([]analysis.EngineFault, error) {
	t, err := j.KnownTarget(platform)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(version); err != nil {
		return nil, err
	}
	list := []analysis.EngineFault{}
	for _, f := range target.FaultsOf(t.Name, version) {
		list = append(list, analysis.NewEngineFault(f))
	}
	return list, nil
}

func checkVersion(version string) error {
	if strings.Trim(version, "0123456789.") != "" || strings.Trim(version, ".") != version {
		return fault.Usagef("--engine-version %s: numbers between dots are wanted, as 1.32.0", version)
	}
	return nil
}

// engineFaults are the faults of the engine that a file meets: by what its operators are, and by what the doctor of the format found.
func engineFaults(j *open.Job, t *target.Target, f *export.Format, o FileOptions, found []export.Finding) ([]analysis.EngineFault, error) {
	if err := checkVersion(o.EngineVersion); err != nil {
		return nil, err
	}
	list := target.FaultsOf(t.Name, o.EngineVersion)
	if o.EngineVersion == "" {
		list = slices.DeleteFunc(list, func(f *target.Fault) bool { return f.Until != "" }) // the newest
	}
	var operators []*target.Rounded
	if k := kinds[f.Ext]; len(list) > 0 && (k == kind.ONNX || k == kind.TFLite) {
		m, err := j.OpenModel(o.File)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		for _, g := range []*graph.Graph{m.Graph, onnx.Linears(m.Graph)} {
			for _, id := range g.Nodes() {
				operators = append(operators, target.OfFile(g, id))
			}
		}
	}
	met := analysis.MetBy(list, operators)
	for _, f := range list {
		x := analysis.NewEngineFault(f)
		for _, y := range found {
			words := slices.ContainsFunc(list, func(other *target.Fault) bool { return other.Says != "" && strings.HasSuffix(y.Text, other.Says) })
			if y.Rule == f.Rule && (f.Says != "" && strings.HasSuffix(y.Text, f.Says) || f.Says == "" && !words) {
				x.Nodes = append(x.Nodes, y.Node)
			}
		}
		if x.Nodes != nil {
			met = append(met, x)
		}
	}
	return met, nil
}

// everywhere counts the faults that do not hang on the processor.
func everywhere(list []analysis.EngineFault) (n int) {
	for _, f := range list {
		if f.On == "" {
			n++
		}
	}
	return n
}
