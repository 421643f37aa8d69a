package qwb

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
	"qwb/quantizer/plan"
	"qwb/reports"
)

// Outcomes of commands lie beside the plan, in PLAN.runs.jsonl: one line each, in the order in which they came, without times. The file is no
// part of the plan; without it nothing is lost but what the log tells.

// RunsPath is where the outcomes lie of what was run on a plan.
func RunsPath(planFile string) string {
	return strings.TrimSuffix(planFile, PlanSuffix) + ".runs.jsonl"
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

// states identifies what a plan was before its first decision, and after each.
func states(p *plan.Plan) ([]string, error) {
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

// record keeps the outcome of a command beside the plan that it read or wrote last. That it cannot is no failure of the command.
func record[R any](j *job, command string, r *R, err error, figures func(*R) json.RawMessage) {
	if r == nil || j.seen == nil || j.seen.Options != nil || err != nil && !errors.As(err, new(CheckError)) {
		return
	}
	list, stateErr := states(j.seen)
	if stateErr != nil {
		return
	}
	o := Outcome{State: list[len(list)-1], Command: command, Missed: err != nil, Figures: figures(r)}
	if keepErr := keepOutcome(j.store(), RunsPath(j.Plan), o); keepErr != nil {
		j.detail("plan log will not have this outcome: %v", keepErr)
	}
}

// recordAt is record for another plan than the project's.
func recordAt[R any](j *job, planFile, command string, r *R, figures func(*R) json.RawMessage) {
	other := &job{project: &project{Plan: planFile, Store: j.Store, Events: j.Events}}
	if _, _, err := other.readPlan(planFile); err == nil {
		record(other, command, r, nil, figures)
	}
}

// keepOutcome appends a line, unless the last one says the same.
func keepOutcome(s Store, name string, o Outcome) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if line = append(line, '\n'); len(line) > maxOutcome {
		return fmt.Errorf("%s: %d bytes are too many for an outcome", name, len(line))
	}
	path, ok := s.Path(name)
	if ok {
		defer file.LockFolder(filepath.Dir(path))()
	}
	for {
		err := addOutcome(s, name, path, line)
		if !errors.As(err, new(*ChangedError)) {
			return err
		}
	} // another project of a store without locks was faster: its line is read, and kept
}

// addOutcome is one attempt of keepOutcome. Where the store has no path for the name, a ChangedError says that somebody else was faster.
func addOutcome(s Store, name, path string, line []byte) error {
	old, err := readRuns(s, name)
	if err != nil {
		return err
	}
	was := old
	if n := len(old); n > 0 && old[n-1] != '\n' { // a line that was not written to its end
		line = append([]byte{'\n'}, line...)
	}
	if bytes.HasSuffix(old, line) && (len(old) == len(line) || old[len(old)-len(line)-1] == '\n') {
		return nil
	}
	if path != "" && len(old)+len(line) <= maxRuns {
		return appendTo(path, line)
	}
	now := bytesOf(newest(slices.Concat(old, line)))
	if path != "" {
		_, err = WriteFile(s, name, now)
		return err
	}
	return replaceOutcomes(s, name, was, now)
}

// replaceOutcomes writes the lines of a file that was read as was, unless it is another one meanwhile.
func replaceOutcomes(s Store, name string, was []byte, now func(io.Writer) error) error {
	raw, err := readFile(s, name, 16*maxRuns)
	if err != nil && !missing(err) {
		return err
	}
	if !bytes.Equal(newest(raw), was) {
		return &ChangedError{name}
	}
	sum := ""
	if err == nil {
		sum = sumOf(raw)
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

func appendTo(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// readRuns reads the lines of a file; nothing where there is none. Of a file that somebody made larger than qwb does, the end is read.
func readRuns(s Store, name string) ([]byte, error) {
	info, err := fs.Stat(s, name)
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a pipe would be waited for
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	b, err := readFile(s, name, 16*maxRuns)
	return newest(b), err
}

// outcomes reads what is kept beside a plan, by state. Lines that are none are passed over.
func (j *job) outcomes(planFile string) map[string][]Outcome {
	b, err := readRuns(j.store(), RunsPath(planFile))
	if err != nil {
		j.warn("the outcomes of earlier runs cannot be read: %v", err)
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

// known are the outcomes of earlier runs on the plan that a command has written, or read.
func (j *job) known() []Outcome {
	if j.seen == nil || j.seen.Options != nil {
		return nil
	}
	list, err := states(j.seen)
	if err != nil {
		return nil
	}
	return j.outcomes(j.Plan)[list[len(list)-1]]
}

// forget removes the outcomes of states that a plan can no longer come to, and says how many there are and were.
func (j *job) forget(planFile string, p *plan.Plan) (kept, removed int, err error) {
	if p.Options != nil {
		return 0, 0, nil
	}
	all := *p
	for _, step := range slices.Backward(p.Redo) {
		all.Decisions = slices.Concat(all.Decisions, step)
	}
	list, err := states(&all)
	if err != nil {
		return 0, 0, err
	}
	name := RunsPath(planFile)
	if path, ok := j.store().Path(name); ok {
		defer file.LockFolder(filepath.Dir(path))()
	}
	b, err := readRuns(j.store(), name)
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
		_, err = WriteFile(j.store(), name, bytesOf(left))
	}
	return kept, removed, err
}

// picked takes figures out of a result's JSON: its keys, a dot before a key of an object in it, and "key=name" where it is to be called
// otherwise. What is missing, null or empty is left out.
func picked[R any](keys string) func(*R) json.RawMessage {
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

// String is the outcome on one line: "eval: mode sim, n 500, drop 0.4 ± 0.2".
func (o *Outcome) String() string {
	var words []string
	var said string
	var value *float64
	unit := "" // of a drop, where it is one of shares
	dec := json.NewDecoder(bytes.NewReader(o.Figures))
	dec.UseNumber()
	if t, err := dec.Token(); err == nil && t == json.Delim('{') {
		for last := ""; dec.More(); {
			key, _ := dec.Token()
			var v any
			if dec.Decode(&v) != nil {
				break
			}
			name := fmt.Sprint(key)
			if name == "search" { // points, which pages draw
				continue
			}
			if base, ok := strings.CutSuffix(name, "_error"); ok && base == last && len(words) > 0 {
				if e, ok := asFloat(v); ok && value != nil {
					words[len(words)-1] = said + " " + reports.WithError(*value, &e)
					if last == "drop" {
						words[len(words)-1] += unit
					}
				} else {
					words[len(words)-1] += " ± " + figureText(v)
				}
				continue
			}
			if name == "top1" || name == "percent" && v == true {
				unit = " pp"
			}
			last, said, value = name, strings.ReplaceAll(name, "_", " "), nil
			if x, ok := asFloat(v); ok {
				value = &x
			}
			words = append(words, said+" "+figureText(v))
		}
	}
	text := o.Command + ": " + strings.Join(words, ", ")
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
