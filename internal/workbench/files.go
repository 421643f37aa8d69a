package workbench

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qwb"
	"qwb/calib/data"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/plan"
)

// Entry is a file or a folder.
type Entry struct {
	Name  string `json:"name"`  // that other methods take
	Label string `json:"label"` // to be shown
	Dir   bool   `json:"dir"`
	Size  int64  `json:"size"`
	Kind  string `json:"kind"` // model, plan, data, labels, text, other; empty for folders
}

// Listing is what lies in a folder.
type Listing struct {
	Dir     string  `json:"dir"`
	Parent  string  `json:"parent"` // empty where there is none in reach
	Entries []Entry `json:"entries"`
}

// extensions say what a file is likely to be.
var extensions = map[string][]string{
	"model":  {".onnx", ".tflite", ".param", ".gguf", ".bin"},
	"data":   {".npy", ".npz", ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".bin", ".raw", ".gz"},
	"labels": {".tsv", ".txt", ".csv", ".gz"},
	"text":   {".txt"},
	"device": {".yaml", ".yml"},
}

// holds reports whether a file is likely to be of a kind.
func holds(what, name string) bool {
	switch {
	case what == "" || what == "any":
		return true
	case what == "plan" || isPlan(name):
		return what == "plan" && isPlan(name)
	}
	return slices.Contains(extensions[what], strings.ToLower(path.Ext(name))) || what == "data" && path.Ext(name) == ""
}

// maxEntries is how many entries of a folder are listed.
const maxEntries = 2000

func (b *Bench) files(_ context.Context, q struct {
	Dir  string `json:"dir"`
	Kind string `json:"kind"`
}) (*Listing, error) {
	if _, ok := extensions[q.Kind]; !ok && !slices.Contains([]string{"", "any", "plan"}, q.Kind) {
		return nil, qwb.Usagef("unknown kind %q of files", q.Kind)
	}
	roots := b.roots()
	l := &Listing{Dir: q.Dir, Entries: []Entry{}}
	if q.Dir == "" {
		if len(roots) > 1 {
			for _, r := range roots {
				l.Entries = append(l.Entries, Entry{Name: r, Label: r, Dir: true})
			}
			return l, nil
		}
		l.Dir = roots[0]
	}
	dir := path.Clean(filepath.ToSlash(l.Dir))
	if !slices.ContainsFunc(roots, func(r string) bool { return within(path.Clean(filepath.ToSlash(r)), dir) }) {
		return nil, qwb.Usagef("%s is not in a folder that this page may look into", q.Dir)
	}
	if up := path.Dir(dir); up != dir && slices.ContainsFunc(roots, func(r string) bool {
		return within(path.Clean(filepath.ToSlash(r)), up)
	}) {
		l.Parent = up
	}
	list, err := fs.ReadDir(b.store(), l.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") || len(l.Entries) == maxEntries {
			continue
		}
		entry := Entry{Name: path.Join(dir, e.Name()), Label: e.Name()}
		info, err := fs.Stat(b.store(), path.Join(filepath.ToSlash(l.Dir), e.Name())) // of a link what it leads to, where that is in reach
		if err != nil {
			continue
		}
		if entry.Dir = info.IsDir(); !entry.Dir {
			if !holds(q.Kind, e.Name()) {
				continue
			}
			entry.Size, entry.Kind = info.Size(), "other"
			for _, kind := range []string{"plan", "model", "labels", "data", "text"} {
				if holds(kind, e.Name()) {
					entry.Kind = kind
					break
				}
			}
		}
		l.Entries = append(l.Entries, entry)
	}
	arrange.Stable(l.Entries, func(x, y Entry) int {
		if x.Dir != y.Dir {
			if x.Dir {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Label, y.Label)
	})
	return l, nil
}

// within reports whether a cleaned name lies in a cleaned folder, or is it.
func within(folder, name string) bool {
	if folder == "." {
		return !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
	}
	return name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// Thumbnail is a sample as the network sees it: after resizing and cropping.
type Thumbnail struct {
	Name   string `json:"name"`
	Label  *int   `json:"label"` // null: unknown
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Of     [2]int `json:"of"`  // height and width as the network sees it
	RGB    string `json:"rgb"` // base64, 3 bytes for each pixel
	// What the network is fed with: the least and the largest number, and the mean.
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
	Mean float64 `json:"mean"`
}

// Thumbnails are some samples.
type Thumbnails struct {
	Items      []Thumbnail `json:"items"`
	Samples    int         `json:"samples"` // there are
	Labelled   int         `json:"labelled"`
	Preprocess string      `json:"preprocess"` // in words
	Note       string      `json:"note"`
	side       int
}

// thumbnailSide is the longest side of a thumbnail, thumbnailsShown how many are shown unless asked otherwise.
const (
	thumbnailSide     = 112
	thumbnailsShown   = 8
	thumbnailsMost    = 64
	thumbnailsLargest = 512
)

func (b *Bench) thumbnails(_ context.Context, q struct {
	dataOptions
	Names []string `json:"names"` // of the samples wanted
	Side  int      `json:"side"`  // the longest one of a picture, 0 for 112
}) (*Thumbnails, error) {
	p := b.project()
	if p.Model == "" {
		return nil, qwb.Usagef("no model is open")
	}
	m, _, err := p.OpenModel()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	o := q.options()
	b.evaluation(&o)
	want := min(cmp.Or(o.Samples, thumbnailsShown), thumbnailsMost)
	b.bounded(&o, new(int), nil)
	if o.Samples = 0; o.Preprocess == "" {
		if read, err := b.readPlan(p.Plan); err == nil {
			o.Stored = &read.Preprocess
		}
	}
	set, _, err := p.OpenData(m.Graph, o.Of(m))
	if err != nil {
		return nil, err
	}
	shown := set
	r := &Thumbnails{Items: []Thumbnail{}, Samples: set.Len(), Labelled: set.Labelled()}
	spec := data.SpecOf(m.Graph)
	if len(spec) == 0 {
		return nil, qwb.Usagef("the model has no input")
	}
	if set.Pictures() {
		pre := plan.Preprocess{}
		if o.Stored != nil {
			pre = *o.Stored
		}
		if o.Preprocess != "" {
			if pre, err = data.Preprocessing(o.Preprocess, spec, b.store()); err != nil {
				return nil, err
			}
		}
		pixels := data.Pixels(pre)
		o.Preprocess, o.Stored = "", &pixels
		if shown, _, err = p.OpenData(m.Graph, o.Of(m)); err != nil {
			return nil, err
		}
		r.Preprocess = words(pre)
	}
	r.side = min(cmp.Or(q.Side, thumbnailSide), thumbnailsLargest)
	return r, r.add(chosen(set, q.Names, want, q.Seed), set, shown, spec[0].Name)
}

// chosen are the samples of these names, without names as many as are wanted.
func chosen(set *data.Set, names []string, want int, seed uint64) (list []int) {
	if len(names) == 0 {
		if list = set.Choose(want, seed); list != nil {
			return list
		}
	}
	for i := range set.Len() {
		if len(names) == 0 && i < want || slices.Contains(names, set.Name(i)) && len(list) < thumbnailsMost {
			list = append(list, i)
		}
	}
	return list
}

// add draws samples: what an input is fed with, and what is seen of it.
func (r *Thumbnails) add(list []int, set, shown *data.Set, input string) error {
	for _, i := range list {
		fed, err := set.Sample(i)
		if err != nil {
			return err
		}
		seen, err := shown.Sample(i)
		if err != nil {
			return err
		}
		t := Thumbnail{Name: fed.Name}
		if fed.Label >= 0 {
			t.Label = &fed.Label
		}
		t.Lo, t.Hi, t.Mean = span(fed.Feeds[input])
		lo, hi := 0.0, 255.0
		if !set.Pictures() {
			lo, hi = most(seen.Feeds[input], t.Lo, t.Hi)
			r.Note = "shown from the least to the largest number, but for the hundredth part at either end"
		}
		if !t.draw(seen.Feeds[input], lo, hi, r.side) {
			r.Note = "the first input is no picture: there is nothing to show"
		}
		r.Items = append(r.Items, t)
	}
	return nil
}

// words says what a preprocessing does.
func words(p plan.Preprocess) string {
	var list []string
	if r := p.Resize; r != nil && r.Size != nil {
		list = append(list, fmt.Sprintf("resize to %d x %d", r.Size[0], r.Size[1]))
	} else if r != nil {
		list = append(list, fmt.Sprintf("resize the shorter side to %d", r.Shorter))
	}
	if c := p.CenterCrop; c != nil {
		list = append(list, fmt.Sprintf("crop the middle, %d x %d", c[0], c[1]))
	}
	if p.ChannelOrder != "" {
		list = append(list, "channels in the order "+p.ChannelOrder)
	}
	if p.Scale != 0 {
		list = append(list, fmt.Sprintf("times %.6g", p.Scale))
	}
	if len(p.Mean) > 0 {
		list = append(list, fmt.Sprintf("less %v", p.Mean))
	}
	if len(p.Std) > 0 {
		list = append(list, fmt.Sprintf("divided by %v", p.Std))
	}
	if len(list) == 0 {
		return "pixels as they are"
	}
	return strings.Join(list, ", ")
}

// most is the range of nearly all numbers: a few far out leave a picture dark. Where that is none, it is lo to hi.
func most(t *tensor.Tensor, lo, hi float64) (from, to float64) {
	if t == nil || t.DType != tensor.Float32 || t.Len() == 0 {
		return lo, hi
	}
	x := slices.Sorted(slices.Values(t.F32()))
	n := len(x) / 100
	if from, to = float64(x[n]), float64(x[len(x)-1-n]); !(to > from) {
		return lo, hi
	}
	return from, to
}

func span(t *tensor.Tensor) (lo, hi, mean float64) {
	if t == nil || t.DType != tensor.Float32 || t.Len() == 0 {
		return 0, 0, 0
	}
	x := t.F32()
	lo, hi = float64(x[0]), float64(x[0])
	for _, v := range x {
		lo, hi, mean = min(lo, float64(v)), max(hi, float64(v)), mean+float64(v)
	}
	return lo, hi, mean / float64(len(x))
}

// draw makes the pixels of a tensor that has the shape of one picture, grey or in colours; boxes of pixels become one where it is large.
func (p *Thumbnail) draw(t *tensor.Tensor, lo, hi float64, side int) bool {
	if t == nil || t.DType != tensor.Float32 {
		return false
	}
	t = t.ToRowMajor()
	s := t.Shape
	if len(s) == 4 && s[0] == 1 {
		s = s[1:]
	}
	if len(s) == 2 {
		s = []int{1, s[0], s[1]}
	}
	if len(s) != 3 || t.Len() == 0 {
		return false
	}
	var c, h, w int
	var at func(k, y, x int) int
	switch {
	case s[0] == 1 || s[0] == 3:
		c, h, w = s[0], s[1], s[2]
		at = func(k, y, x int) int { return (k*h+y)*w + x }
	case s[2] == 1 || s[2] == 3:
		h, w, c = s[0], s[1], s[2]
		at = func(k, y, x int) int { return (y*w+x)*c + k }
	default:
		return false
	}
	box := (max(h, w) + side - 1) / side
	p.Of = [2]int{h, w}
	p.Width, p.Height = w/box, h/box
	if p.Width*p.Height == 0 {
		return false
	}
	pixels := make([]byte, 0, 3*p.Width*p.Height)
	data := t.F32()
	for y := range p.Height {
		for x := range p.Width {
			for k := range 3 {
				sum := 0.0
				for dy := range box {
					for dx := range box {
						sum += float64(data[at(min(k, c-1), y*box+dy, x*box+dx)])
					}
				}
				v := (sum/float64(box*box) - lo) / math.Max(hi-lo, 1e-30)
				pixels = append(pixels, byte(255*min(max(v, 0), 1)+0.5))
			}
		}
	}
	p.RGB = base64.StdEncoding.EncodeToString(pixels)
	return true
}
