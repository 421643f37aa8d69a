package tune

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"qwb/calib/tune"
	"qwb/graph/tensor"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/overlay"
)

// tuningEvery is how often, at most, an unfinished tuning is written down; large ones take a twentieth of the time.
const tuningEvery = 5 * time.Second

// tuningFile is where an unfinished tuning of a plan stands: PLAN.tuning.
func tuningFile(planFile string) string {
	return strings.TrimSuffix(planFile, store.PlanSuffix) + ".tuning"
}

const tuningMagic = "qwb unfinished tuning 1\n"

// savedHeader is the JSON in front of the tuned values; Sum is the SHA-256 of what follows the JSON.
type savedHeader struct {
	Key string `json:"key"` // of the plan, the samples, and the options that results depend on
	Sum string `json:"sha256"`
	*tune.Saved
}

// tuningKey is the SHA-256 of everything that the outcome of a tuning depends on, the plan's bytes in front.
func (t *tuning) key(methods []*tune.Method, o Options) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%v\n%v\n%s\n%s\n%v\n%v\n%d\n%d\n%s\n%s\n", t.Catalog.Version, t.Planned.Sum,
		o.Force, o.AllowFP32, o.Budget, o.Profile, room(o.MaxWork), room(o.MaxBytes), o.Steps, o.Blocks, o.Loss, o.Optimizer)
	fmt.Fprintln(h, o.Methods)
	for _, m := range methods {
		fmt.Fprintln(h, m.Name)
	}
	if t.grams != nil {
		fmt.Fprintln(h, t.grams.Ranges, t.grams.Summed)
	}
	for _, s := range t.Bench.Fit {
		h.Write(s.Hash[:])
	}
	h.Write([]byte("held out"))
	for _, s := range t.Bench.Held {
		h.Write(s.Hash[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// resumable lets the bench go on from an earlier run that was interrupted, and write down how far this one comes.
func (t *tuning) resumable(methods []*tune.Method, o Options) error {
	name, key := tuningFile(t.Planned.File), t.key(methods, o)
	if _, ok := t.Files().Path(name); !ok {
		return nil // nothing but the operating system's files outlives a process
	}
	b, keep, end, err := planning.Mapped(t.Job, name, 2*planning.MaxOverlay, t.Bench.Reference)
	defer end()
	switch {
	case err == nil:
		saved, other, err := DecodeTuning(b, keep)
		switch {
		case err != nil:
			t.Note("%s cannot be read and will be replaced: %v", name, err)
		case other != key:
			t.Note("%s belongs to another interrupted run (other plan, data or options) and will be replaced", name)
		default:
			t.Bench.Resume = saved
			t.Note("continuing the interrupted run: %s", saved)
		}
	case !store.Missing(err):
		return fmt.Errorf("tune: %w", err)
	}
	passed := t.Clock()
	var written, took time.Duration
	t.Bench.Save = func(last bool, state func() *tune.Saved) error {
		begin := passed()
		if !last && begin-written < max(tuningEvery, 20*took) {
			return nil
		}
		now := state()
		if _, err := store.WriteFile(t.Files(), name, func(w io.Writer) error { return writeTuning(w, key, now) }); err != nil {
			return fmt.Errorf("tune: %w", err)
		}
		written = passed()
		if took = written - begin; last {
			t.Note("interrupted after %d methods and %d operators of the next. %s keeps them; run the same command to continue", len(now.Reports),
				len(now.Layers), name)
		}
		return nil
	}
	return nil
}

// finished removes what an interrupted run would go on from.
func (t *tuning) finished() error {
	path, ok := t.Files().Path(tuningFile(t.Planned.File))
	if !ok {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("tune: %w", err)
	}
	return nil
}

// writeTuning writes the magic, the header as one line of JSON, then each overlay behind its length (uint64, little-endian), and what is
// being learnt.
func writeTuning(w io.Writer, key string, s *tune.Saved) error {
	h := sha256.New()
	if err := writeValues(h, s); err != nil {
		return err
	}
	head, err := json.Marshal(savedHeader{key, hex.EncodeToString(h.Sum(nil)), s})
	if err != nil {
		return err
	}
	if _, err := w.Write(append(append([]byte(tuningMagic), head...), '\n')); err != nil {
		return err
	}
	return writeValues(w, s)
}

func writeValues(w io.Writer, s *tune.Saved) error {
	list := []*overlay.Overlay{s.Begin, s.Now}
	for i := range s.Turns {
		list = append(list, s.Turns[i].Begin)
	}
	for _, o := range list {
		n := &counted{w: io.Discard}
		if err := o.Write(n); err != nil {
			return err
		}
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(n.n))); err != nil {
			return err
		}
		if err := o.Write(w); err != nil {
			return err
		}
	}
	if s.Lesson == nil {
		return nil
	}
	var b []byte // a piece at a time: they are as large as the weights
	for _, list := range [][]float32{s.Lesson.Values, s.Lesson.Best} {
		for piece := range slices.Chunk(list, 1<<14) {
			b = b[:0]
			for _, x := range piece {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// DecodeTuning reads what writeTuning wrote; keep is that of overlay.ParseKept.
func DecodeTuning(b []byte, keep func(*tensor.Tensor) *tensor.Tensor) (s *tune.Saved, key string, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(tuningMagic))
	head, values, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 {
		return nil, "", errors.New("it is no unfinished tuning")
	}
	h := savedHeader{Saved: new(tune.Saved)}
	if err := json.Unmarshal(head, &h); err != nil {
		return nil, "", err
	}
	if store.Sum(values) != h.Sum {
		return nil, "", errors.New("it is damaged")
	}
	list := []**overlay.Overlay{&h.Begin, &h.Now}
	for i := range h.Turns {
		list = append(list, &h.Turns[i].Begin)
	}
	for _, o := range list {
		if len(values) < 8 || uint64(len(values)-8) < binary.LittleEndian.Uint64(values) {
			return nil, "", io.ErrUnexpectedEOF
		}
		n := binary.LittleEndian.Uint64(values)
		if *o, err = overlay.ParseKept(values[8:8+n], keep); err != nil {
			return nil, "", err
		}
		values = values[8+n:]
	}
	if h.Lesson != nil {
		all := make([]float32, len(values)/4)
		for i := range all {
			all[i] = math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:]))
		}
		h.Lesson.Values, h.Lesson.Best = all[:len(all)/2], all[len(all)/2:]
	}
	return h.Saved, h.Key, nil
}
