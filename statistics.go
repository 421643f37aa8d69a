package qwb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"qwb/calib"
	"qwb/internal/kind"
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
	return fmt.Sprintf("%s holds the statistics of an interrupted calibration, of %d of %d samples: repeat the command that was interrupted, with its --data, and it goes on from there", e.file, e.done, e.of)
}

// readStats reads statistics, those of an interrupted run too: of is then how many samples there would have been, else 0.
func (j *job) readStats(name string) (stats *calib.Stats, of int, err error) {
	r, size, end, err := readAt(j.store(), name)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	head := make([]byte, len(partMagic)+binary.MaxVarintLen64)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if bytes.HasPrefix(head[:n], []byte(shardMagic)) {
		return nil, 0, &FileError{File: name, Err: errShard}
	}
	if bytes.HasPrefix(head[:n], []byte(partMagic)) {
		total, length := binary.Uvarint(head[len(partMagic):n])
		if length <= 0 || total > 1<<40 {
			return nil, 0, &FileError{File: name, Err: calib.ErrDamaged}
		}
		at := int64(len(partMagic) + length)
		r, size, of = io.NewSectionReader(r, at, size-at), size-at, int(total)
	}
	if stats, err = calib.Read(r, size); err != nil {
		return nil, 0, &FileError{File: name, Err: err}
	}
	return stats, of, nil
}

// keepStats writes the statistics of a run that was interrupted; there would have been of samples.
func (j *job) keepStats(stats *calib.Stats, of int, name string) error {
	_, err := WriteFile(j.store(), name, func(w io.Writer) error {
		if _, err := w.Write(binary.AppendUvarint([]byte(partMagic), uint64(of))); err != nil {
			return err
		}
		return stats.Write(w)
	})
	return err
}

// saveStats writes the statistics of a whole run of so many samples.
func (j *job) saveStats(stats *calib.Stats, _ int, name string) error {
	_, err := WriteFile(j.store(), name, stats.Write)
	return err
}

// loadStats reads statistics, which must be of this model and of a whole run.
func (j *job) loadStats(name string, m *Model) (*calib.Stats, error) {
	if err := j.check(name, "a file of statistics", kind.Statistics); err != nil {
		return nil, err
	}
	stats, of, err := j.readStats(name)
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

// planStats reads the statistics of a plan, which must be of the data that the plan was made from.
func (j *job) planStats(p *Planned) (*calib.Stats, error) {
	name := j.statsOf(p.File)
	stats, err := j.loadStats(name, p.Model)
	if err != nil {
		return nil, err
	}
	if hash := plan.DataHash(sampleHashes(stats)); hash != p.Plan.Data.Hash {
		return nil, fmt.Errorf("%s holds the statistics of other data than those that %s was made from (%d samples, hash %.12s..., the plan says %d and %.12s...): make the plan of these by qwb calibrate %s --platform %s -o %s, or calibrate on the plan's data again",
			name, p.File, stats.Samples(), hash, p.Plan.Samples, p.Plan.Data.Hash, p.Path, p.Plan.Platform, p.File)
	}
	return stats, nil
}

// statsOf is where the statistics of a plan are: where the project says, if it is the project's plan.
func (j *job) statsOf(planFile string) string {
	if planFile == j.Plan {
		return j.stats()
	}
	return StatsPath(planFile)
}

// tunedStats are the statistics of a plan's graph as it is quantized: with the steps that tuning made.
func (j *job) tunedStats(p *Planned) (*calib.Stats, error) {
	stats, err := j.planStats(p)
	if err == nil && p.broken == nil {
		stats, _, err = j.stepped(p.File, p.Plan, stats)
	}
	return stats, err
}
