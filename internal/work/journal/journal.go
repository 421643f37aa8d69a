// Package journal is what lies beside a plan to be looked up and is no part of it: the outcomes of commands, and the last analysis.
package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"qwb/internal/file"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
	"qwb/reports"
)

// Outcomes of commands lie beside the plan, in PLAN.runs.jsonl: one line each, in the order in which they came, without times. The file is
// no part of the plan; without it nothing is lost but what the log tells.

// RunsPath is where the outcomes lie of what was run on a plan.
func RunsPath(planFile string) string {
	return strings.TrimSuffix(planFile, store.PlanSuffix) + ".runs.jsonl"
}

// Outcome is what a command found about a plan.
type Outcome struct {
	State   string          `json:"state"` // of the plan: its inputs and decisions
	Command string          `json:"command"`
	Missed  bool            `json:"missed,omitempty"` // a check did not hold
	Figures json.RawMessage `json:"figures"`          // an object; what a figure x_error beside x is its standard error
}

// Bounds of the file and of one line. Of a file that is full the older half goes.
const (
	maxRuns    = 1 << 20
	maxOutcome = 4 << 10
)

// States identifies what a plan was before its first decision, and after each.
func States(p *plan.Plan) ([]string, error) {
	inputs, err := p.Inputs()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(inputs))
	list := []string{hex.EncodeToString(sum[:16])}
	for i := range p.Decisions {
		b, err := p.Decisions[i].Encode()
		if err != nil {
			return nil, err
		}
		sum = sha256.Sum256(append(sum[:], b...))
		list = append(list, hex.EncodeToString(sum[:16]))
	}
	return list, nil
}

// Record keeps the outcome of a command beside the plan that it read or wrote last. That it cannot is no failure of the command.
func Record[R any](j *open.Job, command string, r *R, err error, figures func(*R) json.RawMessage) {
	if r == nil || j.Seen == nil || j.Seen.Options != nil || err != nil && !errors.As(err, new(fault.CheckError)) {
		return
	}
	list, stateErr := States(j.Seen)
	if stateErr != nil {
		return
	}
	o := Outcome{State: list[len(list)-1], Command: command, Missed: err != nil, Figures: figures(r)}
	if keepErr := keepOutcome(j.Files(), RunsPath(j.Plan), o); keepErr != nil {
		j.Detail("plan log will not have this outcome: %v", keepErr)
	}
}

// RecordAt is record for another plan than the project's.
func RecordAt[R any](j *open.Job, planFile, command string, r *R, figures func(*R) json.RawMessage) {
	other := &open.Job{Project: &open.Project{Plan: planFile, Store: j.Store, Events: j.Events}}
	if _, _, err := other.ReadPlan(planFile); err == nil {
		Record(other, command, r, nil, figures)
	}
}

// keepOutcome adds a line, unless the last one says the same. The file is replaced as a whole, so that nothing is written through a link.
func keepOutcome(s store.Store, name string, o Outcome) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if line = append(line, '\n'); len(line) > maxOutcome {
		return fmt.Errorf("%s: %d bytes are too many for an outcome", name, len(line))
	}
	for {
		err := addOutcome(s, name, line)
		if !errors.As(err, new(*fault.ChangedError)) {
			return err
		}
	} // another command was faster: its line is read, and kept
}

// addOutcome is one attempt of keepOutcome. A fault.ChangedError says that somebody else was faster.
func addOutcome(s store.Store, name string, line []byte) error {
	old, err := readRuns(s, name)
	if err != nil {
		return err
	}
	was := old
	if isLink(s, name) {
		old = nil // lines of somebody else
	}
	if n := len(old); n > 0 && old[n-1] != '\n' { // a line that was not written to its end
		line = append([]byte{'\n'}, line...)
	}
	if bytes.HasSuffix(old, line) && (len(old) == len(line) || old[len(old)-len(line)-1] == '\n') {
		return nil
	}
	return replaceOutcomes(s, name, was, store.BytesOf(newest(slices.Concat(old, line))))
}

// isLink reports whether a name is a link in the file system.
func isLink(s store.Store, name string) bool {
	path, ok := s.Path(name)
	info, err := os.Lstat(path)
	return ok && err == nil && info.Mode()&fs.ModeSymlink != 0
}

// replaceOutcomes writes the lines of a file that was read as was, unless it is another one meanwhile.
func replaceOutcomes(s store.Store, name string, was []byte, now func(io.Writer) error) error {
	raw, err := store.ReadFile(s, name, 16*maxRuns)
	if err != nil && !store.Missing(err) {
		return err
	}
	if !bytes.Equal(newest(raw), was) {
		return &fault.ChangedError{Name: name}
	}
	sum := ""
	if err == nil {
		sum = store.Sum(raw)
	}
	stage := s.Stage()
	defer stage.Discard()
	stage.Expect(name, sum)
	if err := stage.Add(name, now); err != nil {
		return err
	}
	return stage.Commit()
}

// newest is what is kept of lines: all, or if they are too many the newest of half the bound.
func newest(lines []byte) []byte {
	if len(lines) <= maxRuns {
		return lines
	}
	lines = lines[len(lines)-maxRuns/2:]
	return lines[bytes.IndexByte(lines, '\n')+1:]
}

// readRuns reads the lines of a file; nothing where there is none. Of a file that somebody made larger than qwb does, the end is read.
func readRuns(s store.Store, name string) ([]byte, error) {
	info, err := fs.Stat(s, name)
	switch {
	case store.Missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a pipe would be waited for
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	b, err := store.ReadFile(s, name, 16*maxRuns)
	return newest(b), err
}

// Outcomes reads what is kept beside a plan, by state. Lines that are none are passed over.
func Outcomes(j *open.Job, planFile string) map[string][]Outcome {
	b, err := readRuns(j.Files(), RunsPath(planFile))
	if err != nil {
		j.Warn("the outcomes of earlier runs cannot be read: %v", err)
	}
	list := map[string][]Outcome{}
	for line := range bytes.Lines(b) {
		var o Outcome
		if json.Unmarshal(line, &o) == nil && o.State != "" && o.Command != "" {
			list[o.State] = append(list[o.State], o)
		}
	}
	return list
}

// Known are the outcomes of earlier runs on the plan that a command has written, or read.
func Known(j *open.Job) []Outcome {
	if j.Seen == nil || j.Seen.Options != nil {
		return nil
	}
	list, err := States(j.Seen)
	if err != nil {
		return nil
	}
	return Outcomes(j, j.Plan)[list[len(list)-1]]
}

// Forget removes the outcomes of states that a plan can no longer come to, and says how many there are and were.
func Forget(j *open.Job, planFile string, p *plan.Plan) (kept, removed int, err error) {
	if p.Options != nil {
		return 0, 0, nil
	}
	all := *p
	for _, step := range slices.Backward(p.Redo) {
		all.Decisions = slices.Concat(all.Decisions, step)
	}
	list, err := States(&all)
	if err != nil {
		return 0, 0, err
	}
	name := RunsPath(planFile)
	if path, ok := j.Files().Path(name); ok {
		defer file.LockFolder(filepath.Dir(path))()
	}
	b, err := readRuns(j.Files(), name)
	if err != nil {
		return 0, 0, err
	}
	var left []byte
	for line := range bytes.Lines(b) {
		var o Outcome
		if json.Unmarshal(line, &o) == nil && slices.Contains(list, o.State) {
			left, kept = append(left, line...), kept+1
		} else {
			removed++
		}
	}
	if removed > 0 {
		_, err = store.WriteFile(j.Files(), name, store.BytesOf(left))
	}
	return kept, removed, err
}

// Picked takes figures out of a result's JSON: its keys, a dot before a key of an object in it, and "key=name" where it is to be called
// otherwise. What is missing, null or empty is left out.
func Picked[R any](keys string) func(*R) json.RawMessage {
	return func(r *R) json.RawMessage {
		b, err := json.Marshal(r)
		if err != nil {
			return json.RawMessage("{}")
		}
		var out bytes.Buffer
		for _, key := range strings.Fields(keys) {
			path, name, named := strings.Cut(key, "=")
			if !named {
				name = path
			}
			v := json.RawMessage(b)
			for _, step := range strings.Split(path, ".") {
				var inner map[string]json.RawMessage
				if json.Unmarshal(v, &inner) != nil {
					v = nil
					break
				}
				v = inner[step]
			}
			if s := string(v); s == "" || s == "null" || s == `""` {
				continue
			}
			fmt.Fprintf(&out, ",%q:%s", name, v)
		}
		return json.RawMessage("{" + strings.TrimPrefix(out.String(), ",") + "}")
	}
}

// Figure is a value of an outcome. Error is the standard error of a number, nil where none was kept.
type Figure struct {
	Name  string
	Value any // as JSON has it, a number as json.Number
	Error *float64
}

// Number is the value where it is one.
func (f *Figure) Number() (x float64, ok bool) { return asFloat(f.Value) }

// Each calls yield for every figure of the outcome, in the order in which they were kept.
func (o *Outcome) Each(yield func(*Figure)) {
	dec := json.NewDecoder(bytes.NewReader(o.Figures))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return
	}
	var last *Figure
	for dec.More() {
		key, _ := dec.Token()
		var v any
		if dec.Decode(&v) != nil {
			break
		}
		name := fmt.Sprint(key)
		e, number := asFloat(v)
		if base, ok := strings.CutSuffix(name, "_error"); ok && number && last != nil && base == last.Name {
			last.Error = &e
			continue
		}
		if last != nil {
			yield(last)
		}
		last = &Figure{Name: name, Value: v}
	}
	if last != nil {
		yield(last)
	}
}

// String is the outcome on one line: "eval: mode sim, n 500, drop 0.4 ± 0.2".
func (o *Outcome) String() string { return o.Command + ": " + o.Text() }

// Text is the outcome without its command. Figures that have one of the names in but are left out.
func (o *Outcome) Text(but ...string) string {
	var words []string
	unit := "" // of a drop, where it is one of shares
	o.Each(func(f *Figure) {
		if f.Name == "top1" || f.Name == "percent" && f.Value == true {
			unit = " pp"
		}
		if f.Name == "search" || slices.Contains(but, f.Name) { // points, which pages draw
			return
		}
		word := strings.ReplaceAll(f.Name, "_", " ") + " "
		if x, ok := f.Number(); ok && f.Error != nil {
			word += reports.WithError(x, f.Error)
			if f.Name == "drop" {
				word += unit
			}
		} else {
			word += figureText(f.Value)
		}
		words = append(words, word)
	})
	text := strings.Join(words, ", ")
	if o.Missed {
		text += " (a check did not hold)"
	}
	return text
}

func asFloat(v any) (x float64, ok bool) {
	n, ok := v.(json.Number)
	if ok {
		x, _ = n.Float64()
	}
	return x, ok
}

func figureText(v any) string {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return strconv.FormatFloat(f, 'g', 3, 64)
		}
		return v.String()
	case []any:
		list := make([]string, len(v))
		for i := range v {
			list[i] = figureText(v[i])
		}
		return strings.Join(list, " ")
	}
	return fmt.Sprint(v)
}
