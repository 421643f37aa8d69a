package language

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"qwb/calib/tune/texts"
	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
	"qwb/internal/work/open"
)

// UnfinishedSuffix ends the name of the file of matrices that a run of export has fitted, beside what it writes, until it has ended.
const UnfinishedSuffix = ".fitting"

const unfinishedMagic = "qwb unfinished fitting 1 "

// unfinished is a file of matrices as they were fitted: a line with the key of the run, then records of the SHA-256 of what follows, the
// lengths of a list of losses (JSON) and of a tensor, and these.
type unfinished struct {
	file    *os.File
	mapping *file.Mapping
	tensors []*checkpoint.Tensor
	losses  []texts.Loss
}

// openUnfinished opens the file of a run, and reads what an interrupted one has left, where it was of the same model, text and options.
func openUnfinished(ctx context.Context, j *open.Job, l *open.Language, o Fitting, ids [][]int) (*unfinished, error) {
	key, err := o.key(ctx, j, l, ids)
	if err != nil {
		return nil, err
	}
	u := &unfinished{}
	head := []byte(unfinishedMagic + key + "\n")
	if m, err := file.OpenMapping(o.Unfinished); err == nil {
		end := 0
		if bytes.HasPrefix(m.Bytes, head) {
			end = len(head) + u.read(m.Bytes[len(head):])
			j.Note("going on behind %d matrices that an interrupted run has fitted (%s)", len(u.tensors), o.Unfinished)
		} else {
			j.Note("%s belongs to another interrupted run (other model, text or options) and is replaced", o.Unfinished)
		}
		if u.mapping = m; end > 0 {
			if err := os.Truncate(o.Unfinished, int64(end)); err != nil {
				return nil, err
			}
		} else if err := os.Remove(o.Unfinished); err != nil {
			return nil, err
		}
	}
	if u.file, err = file.OpenAppend(o.Unfinished); err != nil {
		return nil, err
	}
	if len(u.tensors) == 0 {
		if err = u.file.Truncate(0); err == nil {
			_, err = u.file.Write(head)
		}
	}
	return u, err
}

// key is the SHA-256 of everything that the matrices depend on.
func (o *Fitting) key(ctx context.Context, j *open.Job, l *open.Language, ids [][]int) (string, error) {
	digest, err := l.Digest(ctx)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%d\n%v\n", j.Catalog.Version, digest, o.Way.Name, o.Bits, ids)
	for _, t := range matricesOf(l.Model) {
		e := o.Encoding(t)
		fmt.Fprintf(h, "%s %s %d %s\n", t.Part, e.Name(), e.Group, e.Scale)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// read takes the records that are whole and returns where the last of them ends.
func (u *unfinished) read(b []byte) (end int) {
	const front = sha256.Size + 16
	for {
		r := b[end:]
		if len(r) < front {
			return end
		}
		lost, tensor := binary.LittleEndian.Uint64(r[sha256.Size:]), binary.LittleEndian.Uint64(r[sha256.Size+8:])
		if room := uint64(len(r) - front); lost > room || tensor > room-lost {
			return end
		}
		n := front + int(lost+tensor)
		if sha256.Sum256(r[sha256.Size:n]) != [sha256.Size]byte(r) {
			return end
		}
		var losses []texts.Loss
		t, err := checkpoint.ParseKept(r[front+int(lost) : n])
		if err != nil || json.Unmarshal(r[front:front+int(lost)], &losses) != nil {
			return end
		}
		u.tensors, u.losses, end = append(u.tensors, t), append(u.losses, losses...), end+n
	}
}

// keep appends a matrix.
func (u *unfinished) keep(t *checkpoint.Tensor, losses []texts.Loss) error {
	lost, err := json.Marshal(losses[len(u.losses):])
	if err != nil {
		return err
	}
	u.losses = losses
	b := make([]byte, sha256.Size+16)
	b = t.AppendKept(append(b, lost...))
	binary.LittleEndian.PutUint64(b[sha256.Size:], uint64(len(lost)))
	binary.LittleEndian.PutUint64(b[sha256.Size+8:], uint64(len(b)-sha256.Size-16-len(lost)))
	sum := sha256.Sum256(b[sha256.Size:])
	copy(b, sum[:])
	_, err = u.file.Write(b)
	return err
}

// close ends writing. What was read stays in use: it is released with the process.
func (u *unfinished) close() { _ = u.file.Close() }
