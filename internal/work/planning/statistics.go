package planning

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"qwb/calib"
	"qwb/graph"
	"qwb/internal/kind"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
)

// partMagic begins the statistics of a run that was interrupted: the magic, how many samples there are in all as an unsigned varint, and
// the statistics of those that were observed, as package calib writes them. Only the same calibration, which goes on from there, reads
// them.
const partMagic = "qwbpart\x01"

// partialError says that statistics are of an interrupted run.
type partialError struct {
	file     string
	done, of int
}

func (e *partialError) Error() string {
	return fmt.Sprintf("%s holds the statistics of an interrupted calibration, of %d of %d samples: "+
		"repeat the command that was interrupted, with its --data, and it goes on from there", e.file, e.done, e.of)
}

// ReadStats reads statistics of a network, those of an interrupted run too: of is then how many samples there would have been, else 0.
// in is where the constants of the network lie, if not in memory; the statistics may then be used until it is closed.
func ReadStats(j *open.Job, name string, in graph.Store) (stats *calib.Stats, of int, err error) {
	r, size, end, err := store.ReadAt(j.Files(), name)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	head := make([]byte, len(partMagic)+binary.MaxVarintLen64)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if bytes.HasPrefix(head[:n], []byte(ShardMagic)) {
		return nil, 0, &fault.FileError{File: name, Err: errShard}
	}
	if bytes.HasPrefix(head[:n], []byte(partMagic)) {
		total, length := binary.Uvarint(head[len(partMagic):n])
		if length <= 0 || total > 1<<40 {
			return nil, 0, &fault.FileError{File: name, Err: calib.ErrDamaged}
		}
		at := int64(len(partMagic) + length)
		r, size, of = io.NewSectionReader(r, at, size-at), size-at, int(total)
	}
	if stats, err = calib.ReadIn(in, r, size); err != nil {
		return nil, 0, &fault.FileError{File: name, Err: err}
	}
	return stats, of, nil
}

// PartFile is where the statistics of an interrupted run lie beside those that a plan has: the file itself where it has none, or some of an
// interrupted run.
func PartFile(j *open.Job, name string) string {
	f, err := j.Files().Open(name)
	if err != nil {
		return name
	}
	defer f.Close()
	head := make([]byte, len(partMagic))
	if _, err := io.ReadFull(f, head); err == nil && string(head) == partMagic {
		return name
	}
	return BesideFile(name)
}

// BesideFile is the name of statistics of an interrupted run that may not take the place of others.
func BesideFile(name string) string { return strings.TrimSuffix(name, ".stats") + ".part.stats" }

// EndPart removes statistics of an interrupted run that have become those of a plan.
func EndPart(j *open.Job, name string) {
	path, ok := j.Files().Path(BesideFile(name))
	if _, scratch := j.Project.Files().(*store.Scratch); !ok || scratch {
		return
	}
	if f, err := j.Files().Open(BesideFile(name)); err == nil {
		head := make([]byte, len("qwb"))
		_, err := io.ReadFull(f, head)
		_ = f.Close() // it was read only
		if err == nil && string(head) == "qwb" {
			_ = os.Remove(path) // a file too much does no harm
		}
	}
}

// KeepStats writes the statistics of a run that was interrupted; there would have been of samples.
func KeepStats(j *open.Job, stats *calib.Stats, of int, name string) error {
	_, err := store.WriteFile(j.Files(), name, func(w io.Writer) error {
		if _, err := w.Write(binary.AppendUvarint([]byte(partMagic), uint64(of))); err != nil {
			return err
		}
		return stats.Write(w)
	})
	return err
}

// SaveStats writes the statistics of a whole run of so many samples.
func SaveStats(j *open.Job, stats *calib.Stats, _ int, name string) error {
	_, err := store.WriteFile(j.Files(), name, stats.Write)
	return err
}

// LoadStats reads statistics, which must be of this model and of a whole run.
func LoadStats(j *open.Job, name string, m *open.Model) (*calib.Stats, error) {
	if err := j.Check(name, "a file of statistics", kind.Statistics); err != nil {
		return nil, err
	}
	stats, of, err := ReadStats(j, name, m.Loaded.Store)
	if err != nil {
		return nil, err
	}
	if stats.Model != m.Digest {
		return nil, fmt.Errorf("%s: the statistics are of another model (SHA-256 %.12s..., %s has %.12s...)", name, stats.Model, m.Path, m.Digest)
	}
	if of > 0 {
		return nil, &partialError{name, stats.Samples(), of}
	}
	return stats, nil
}

// PlanStats reads the statistics of a plan, which must be of the data that the plan was made from.
func PlanStats(j *open.Job, p *Planned) (*calib.Stats, error) {
	name := statsOf(j, p.File)
	stats, err := LoadStats(j, name, p.Model)
	if err != nil {
		return nil, err
	}
	if hash := plan.DataHash(SampleHashes(stats)); hash != p.Plan.Data.Hash {
		return nil, fmt.Errorf("%s holds the statistics of other data than those that %s was made from (%d samples, hash %.12s..., "+
			"the plan says %d and %.12s...): make the plan of these by qwb calibrate %s --platform %s -o %s, or calibrate on the plan's data again",
			name, p.File, stats.Samples(), hash, p.Plan.Samples, p.Plan.Data.Hash, p.Path, p.Plan.Platform, p.File)
	}
	return stats, nil
}

// statsOf is where the statistics of a plan are: where the project says, if it is the project's plan.
func statsOf(j *open.Job, planFile string) string {
	if planFile == j.Plan {
		return j.StatsFile()
	}
	return store.StatsPath(planFile)
}

// TunedStats are the statistics of a plan's graph as it is quantized: with the steps that tuning made.
func TunedStats(j *open.Job, p *Planned) (*calib.Stats, error) {
	stats, err := PlanStats(j, p)
	if err == nil && p.broken == nil {
		stats, _, err = Stepped(j, p.File, p.Plan, stats)
	}
	return stats, err
}

// ShardMagic begins the statistics of a part of the data: the magic, the part's number (from 1), how many parts there are, how many samples
// they have together, as unsigned varints, and the statistics, as package calib writes them.
const ShardMagic = "qwbshrd\x01"

var errShard = errors.New("this file holds the statistics of a part of a data set: combine all parts with qwb merge")
