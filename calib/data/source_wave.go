package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"sort"

	"qwb/graph/tensor"
)

// waveSource is a list of WAV files of one channel. A file is cut into frames of the size of the input's last axis, every hop samples; in
// front of it stand zeros, so that the first frame ends with the first hop. What is left at the end of a file is no frame. An input
// whose last axis is open takes whole files.
type waveSource struct {
	fs    files
	dir   string
	in    Input
	hop   int // 0: whole files
	waves []wave
}

// wave is where the samples of a file lie.
type wave struct {
	name         string
	start, rows  int // its first frame, and how many it has
	tag, bits    int // 1: integers (of 8 bits with an offset of 128), 3: floats
	rate         int
	offset, size int64 // of the samples, in bytes
}

func (o *opener) openWaves(dir string, names []string) (source, error) {
	in, err := o.spec.only("waves")
	if err != nil {
		return nil, err
	}
	s := &waveSource{fs: o.fs, dir: dir, in: in}
	if n := len(in.Shape); n == 0 || !in.DType.IsFloat() {
		return nil, fmt.Errorf("input %s takes no waves", in)
	} else if last := in.Shape[n-1]; last.Known() {
		if s.hop = int(last.N); o.pre != nil && o.pre.Hop > 0 {
			s.hop = o.pre.Hop
		}
		if s.hop < 1 || int64(s.hop) > last.N {
			return nil, fmt.Errorf("preprocessing: hop is %d, frames of input %s have %d samples", s.hop, in, last.N)
		}
	}
	if _, err := s.shape(1); err != nil {
		return nil, err
	}
	for _, name := range names {
		w, err := s.inspect(name)
		if err == nil {
			err = s.room(w)
		}
		if err == nil && len(s.waves) > 0 && w.rate != s.waves[0].rate {
			err = fmt.Errorf("%d samples a second, %s has %d", w.rate, s.waves[0].name, s.waves[0].rate)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: wave: %w", name, err)
		}
		w.name, w.start = name, s.len()
		s.waves = append(s.waves, *w)
	}
	return s, nil
}

// shape is that of a frame; n is its length where the input leaves it open.
func (s *waveSource) shape(n int) ([]int, error) {
	shape := make([]int, len(s.in.Shape))
	for i, d := range s.in.Shape {
		switch last := i == len(shape)-1; {
		case last && !d.Known():
			shape[i] = n
		case last:
			shape[i] = int(d.N)
		case d.Known() && d.N != 1:
			return nil, fmt.Errorf("input %s takes no waves: those have one axis", s.in)
		default:
			shape[i] = 1
		}
	}
	return shape, nil
}

const (
	maxChunks = 1000       // of a file; real ones have a dozen
	streamed  = 0x7FFFF000 // bytes of samples from which on a header does not know them: it was written before they were
)

// inspect reads the chunks of a file.
func (s *waveSource) inspect(name string) (*wave, error) {
	r, size, err := s.fs.open(path.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	w := &wave{}
	var head [16]byte
	at := int64(12)
	for range maxChunks {
		if _, err := r.ReadAt(head[:8], at); err != nil {
			return nil, errors.New("there is no chunk data")
		}
		n := int64(binary.LittleEndian.Uint32(head[4:]))
		switch string(head[:4]) {
		case "fmt ":
			if _, err := r.ReadAt(head[:16], at+8); err != nil || n < 16 {
				return nil, errors.New("the chunk fmt is cut off")
			}
			word := func(at int) int { return int(binary.LittleEndian.Uint16(head[at:])) }
			w.tag, w.bits, w.rate = word(0), word(14), int(binary.LittleEndian.Uint32(head[4:]))
			if channels := word(2); channels != 1 {
				return nil, fmt.Errorf("%d channels: mix them into one", channels)
			}
			if w.tag == 0xFFFE { // the format stands further behind
				if _, err := r.ReadAt(head[:2], at+8+24); err == nil {
					w.tag = word(0)
				}
			}
		case "data":
			if left := size - at - 8; n > left && n < streamed {
				return nil, fmt.Errorf("the samples are cut off: %d of %d bytes", left, n)
			}
			return w, w.place(s.hop, at+8, min(n, size-at-8))
		}
		at += 8 + n + n%2
	}
	return nil, fmt.Errorf("none of the first %d chunks is data", maxChunks)
}

// room refuses a file of which a frame is too large.
func (s *waveSource) room(w *wave) error {
	shape, err := s.shape(int(w.size))
	if err != nil {
		return err
	}
	bytes := 4 * int64(tensor.Count(shape))
	if s.in.DType != tensor.Float32 {
		bytes += int64(s.in.DType.Bytes(tensor.Count(shape)))
	}
	return s.fs.room(bytes)
}

// place counts the frames of the samples at offset.
func (w *wave) place(hop int, offset, size int64) error {
	known := w.tag == 1 && (w.bits == 8 || w.bits == 16 || w.bits == 24 || w.bits == 32) || w.tag == 3 && (w.bits == 32 || w.bits == 64)
	if !known {
		return fmt.Errorf("samples of %d bits in format %d: PCM of 8 to 32 bits and floats are read", w.bits, w.tag)
	}
	w.offset, w.size = offset, size/int64(w.bits/8)
	if w.rows = 1; hop > 0 {
		w.rows = int(w.size / int64(hop))
	}
	if w.size == 0 {
		return errors.New("there are no samples")
	}
	if w.rows == 0 {
		return fmt.Errorf("%d samples are less than a frame of %d", w.size, hop)
	}
	return nil
}

func (s *waveSource) len() int {
	if len(s.waves) == 0 {
		return 0
	}
	last := s.waves[len(s.waves)-1]
	return last.start + last.rows
}

func (s *waveSource) find(i int) *wave {
	return &s.waves[sort.Search(len(s.waves), func(f int) bool { return s.waves[f].start > i })-1]
}

func (s *waveSource) name(i int) string {
	w := s.find(i)
	return indexedName(w.name, i-w.start, w.rows)
}

func (s *waveSource) label(int) int { return -1 }

// sequence implements sequenced.
func (s *waveSource) sequence(i int) int { return s.find(i).start }

// initial implements sequenced: waves say nothing of states.
func (s *waveSource) initial(int, InputSpec) (map[string]*tensor.Tensor, error) { return nil, nil }

func (s *waveSource) load(i int) (map[string]*tensor.Tensor, error) {
	w := s.find(i)
	shape, err := s.shape(int(w.size))
	if err != nil {
		return nil, err
	}
	n := shape[len(shape)-1]
	first := 0
	if s.hop > 0 {
		first = (i-w.start+1)*s.hop - n
	}
	r, _, err := s.fs.open(path.Join(s.dir, w.name))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	x := tensor.New(tensor.Float32, shape...)
	zeros := max(-first, 0)
	const block = 1 << 16
	raw := make([]byte, min(n-zeros, block)*w.bits/8)
	for k := zeros; k < n; k += block {
		part := x.F32()[k:min(k+block, n)]
		if _, err := r.ReadAt(raw[:len(part)*w.bits/8], w.offset+int64(first+k)*int64(w.bits/8)); err != nil && err != io.EOF {
			return nil, cause(err)
		}
		for i := range part {
			part[i] = w.number(raw[i*w.bits/8:])
		}
	}
	if x, err = Convert(x, s.in.DType); err != nil {
		return nil, fmt.Errorf("input %s: %w", s.in, err)
	}
	return map[string]*tensor.Tensor{s.in.Name: x}, nil
}

// number is a sample, from -1 to 1: integers by 2^(bits-1).
func (w *wave) number(b []byte) float32 {
	switch {
	case w.tag == 3 && w.bits == 64:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case w.tag == 3:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case w.bits == 8:
		return float32(int(b[0])-128) / 128
	case w.bits == 16:
		return float32(int16(binary.LittleEndian.Uint16(b))) / (1 << 15)
	case w.bits == 24:
		return float32(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)>>8) / (1 << 23)
	}
	return float32(float64(int32(binary.LittleEndian.Uint32(b))) / (1 << 31))
}
