package samples

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

const maxSlices = 1 << 20

// Slices reads the slices of a file, those that the outputs of g are judged by in place of its own; nil for no file. A line has a name, an
// axis, and where the slice begins and ends (not included), and where the network has several outputs the name of one, with tabs between;
// lines that begin with # say nothing.
func Slices(j *open.Job, file string, g *graph.Graph) ([]analysis.Slice, error) {
	if file == "" {
		return nil, nil
	}
	text, err := store.ReadFile(j.Files(), file, maxSlices)
	if err != nil {
		return nil, err
	}
	var list []analysis.Slice
	for i, line := range strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := sliceOf(line, g)
		if err == nil && slices.ContainsFunc(list, func(o analysis.Slice) bool { return o.Name == s.Name }) {
			err = fmt.Errorf("%q is there twice", s.Name)
		}
		if err != nil {
			return nil, &fault.FileError{File: file, Err: fmt.Errorf("line %d: %w", i+1, err)}
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, &fault.FileError{File: file, Err: fmt.Errorf("no line names a slice: name, axis, from, to, with tabs between")}
	}
	return list, nil
}

// sliceOf reads one line.
func sliceOf(line string, g *graph.Graph) (s analysis.Slice, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 4 && len(f) != 5 || strings.TrimSpace(f[0]) == "" {
		return s, fmt.Errorf("%q is not name, axis, from, to, with tabs between (and a fifth column for the output)", line)
	}
	s.Name, s.Part = strings.TrimSpace(f[0]), true
	for k, to := range []*int{&s.Axis, &s.From, &s.To} {
		if *to, err = strconv.Atoi(strings.TrimSpace(f[1+k])); err != nil {
			return s, fmt.Errorf("%q is no number", f[1+k])
		}
	}
	var names []string
	for _, v := range g.Outputs {
		names = append(names, g.Value(v).Name)
	}
	switch {
	case len(f) == 5 && strings.TrimSpace(f[4]) != "":
		if s.Output = slices.Index(names, strings.TrimSpace(f[4])); s.Output < 0 {
			return s, fmt.Errorf("%q is no output: %s", f[4], strings.Join(names, ", "))
		}
	case len(names) != 1:
		return s, fmt.Errorf("a fifth column has to say which output: %s", strings.Join(names, ", "))
	}
	shape := g.Value(g.Outputs[s.Output]).Shape
	axis, ok := graph.Axis(s.Axis, len(shape))
	if !ok {
		return s, fmt.Errorf("output %q has no axis %d: it is %s", names[s.Output], s.Axis, shape)
	}
	s.Axis = axis
	if s.From < 0 || s.To <= s.From || shape[axis].Known() && s.To > int(shape[axis].N) {
		return s, fmt.Errorf("%d to %d is no part of axis %d of output %q, which is %s", s.From, s.To, axis, names[s.Output], shape)
	}
	return s, nil
}

// NamedSlice makes sure that there is a slice of this name among list, or, where list is empty, among those of the network or of the last
// analysis of a plan, which may have been asked for others.
func NamedSlice(j *open.Job, name, plan string, g *graph.Graph, list []analysis.Slice) ([]analysis.Slice, error) {
	own := list
	if len(list) == 0 {
		own = analysis.FindSlices(g)
	}
	names := []string{}
	for _, s := range own {
		if names = append(names, s.Name); s.Name == name {
			return list, nil
		}
	}
	if p := *j.Project; strings.HasSuffix(plan, store.PlanSuffix) {
		p.Plan = plan
		if _, r, err := journal.KeptAnalysis(&p); err == nil {
			for _, o := range r.Outputs {
				at := slices.IndexFunc(g.Outputs, func(v graph.ValueID) bool { return g.Value(v).Name == o.Output })
				for _, s := range o.Slices {
					if s.Name == name && at >= 0 {
						return append(own, analysis.Slice{Name: name, Output: at, Axis: s.Axis, From: s.From, To: s.To, Period: s.Period, Part: true}), nil
					}
				}
			}
		}
	}
	if len(names) == 0 {
		names = append(names, "none")
	}
	return nil, fault.Usagef("--slice %s: no part of an output is called that (there are: %s); --slices FILE names others", name,
		some(names, 20))
}

// some is the first few of a list.
func some(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
