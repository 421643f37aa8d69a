package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"qwb/calib/data/imaging"
	"qwb/graph"
	"qwb/quantizer/plan"
)

// kind is what a file holds, told by its content and, where that says nothing, by its extension.
type kind int

const (
	kindOther kind = iota
	kindImage
	kindArray      // .npy, .npz
	kindProto      // input_N.pb of an ONNX test data set
	kindIdxImages  // MNIST images, raw or gzip
	kindIdxLabels  // MNIST labels, raw or gzip
	kindBinary     // CIFAR-10 records or raw elements
	kindFakeImage  // named as an image, and none
	kindText       // for models that read tokens
	kindWave       // WAV
	maxFolderDepth = 16
)

var (
	imageExtensions  = []string{".jpg", ".jpeg", ".png", ".webp"}
	binaryExtensions = []string{".bin", ".raw", ".dat", ".f32"}
)

// opener turns paths into sources and gathers what there is to say about them.
type opener struct {
	fs       files
	spec     InputSpec
	pre      *plan.Preprocess
	seed     uint64
	warnings []Warning
	text     func(line string) ([]int64, error)
	steps    InputSpec // the states, where samples are steps of sequences; spec is without them

	labels       string // the file of labels, which is no sample that is missing
	skipped      int    // files in folders that are no samples
	firstSkipped string
	unprocessed  string // first path whose samples are inputs as they are
	ignored      string // first array that feeds no input
	turned       string // first array that has its channels last where the input has them first
}

func (o *opener) warn(value float64, format string, args ...any) {
	o.warnings = append(o.warnings, Warning{Node: "data", Text: fmt.Sprintf(format, args...), Value: value})
}

// finish returns all warnings, the gathered ones as one each.
func (o *opener) finish() []Warning {
	if o.skipped > 0 {
		text := fmt.Sprintf("%d files are not samples and were skipped (first: %s)", o.skipped, o.firstSkipped)
		if o.skipped == 1 {
			text = o.firstSkipped + " is not a sample and was skipped"
		}
		o.warnings = append(o.warnings, Warning{Node: "data", Text: text, Value: float64(o.skipped)})
	}
	if o.turned != "" {
		o.warn(0, "array %s has channels last and was transposed", o.turned)
	}
	if o.ignored != "" {
		o.warn(0, "array %s fits no input of the model and was ignored", o.ignored)
	}
	if o.unprocessed != "" && o.pre != nil && !isNone(*o.pre) {
		o.warn(0, "preprocessing applies to images only: %s is used unchanged", o.unprocessed)
	}
	return o.warnings
}

// isNone reports whether p changes nothing.
func isNone(p plan.Preprocess) bool {
	return p.Resize == nil && p.CenterCrop == nil && (p.Scale == 0 || p.Scale == 1) && len(p.Mean) == 0 && len(p.Std) == 0
}

// open opens one argument.
func (o *opener) open(arg string) ([]source, error) {
	if n, ok := strings.CutPrefix(arg, "synthetic:"); ok {
		return one(o.openSynthetic(n))
	}
	if arg == "synthetic" {
		return nil, errors.New("say how many samples: synthetic:N")
	}
	info, err := o.fs.stat(arg)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return o.openFolder(arg)
	}
	k, err := o.classify(arg)
	if err != nil {
		return nil, err
	}
	dir, name := path.Split(arg)
	if dir == "" {
		dir = "."
	}
	switch k {
	case kindOther:
		return nil, errors.New("neither image, npy, npz, raw (.bin), wav, CIFAR-10 nor MNIST file")
	case kindIdxLabels:
		return nil, errors.New("these are MNIST labels: give them as labels, and the images as data")
	case kindProto:
		return nil, errors.New("give the folder of the test data set, not a file in it")
	}
	return o.openFiles(k, dir, []string{name})
}

// openFiles opens files of one kind, given relative to dir and sorted.
func (o *opener) openFiles(k kind, dir string, names []string) ([]source, error) {
	switch k {
	case kindImage:
		return one(o.openImages(dir, names))
	case kindFakeImage:
		return nil, fmt.Errorf("%s: named as an image, but its content is neither JPEG, PNG nor WebP", names[0])
	case kindArray:
		o.unprocessed = path.Join(dir, names[0])
		return one(o.openArrays(dir, names))
	case kindProto:
		o.unprocessed = path.Join(dir, names[0])
		return one(o.openTestSets(dir, names))
	case kindText:
		return o.openTexts(dir, names)
	case kindWave:
		return one(o.openWaves(dir, names))
	}
	var list []source
	for _, n := range names {
		var s source
		var err error
		if k == kindIdxImages {
			s, err = o.openMNIST(dir, n)
		} else {
			s, err = o.openBinary(dir, n)
		}
		if err != nil {
			return nil, &graph.FileError{File: n, Err: err}
		}
		list = append(list, s)
	}
	return list, nil
}

// openFolder opens the samples in a folder and the folders in it (names that start with a dot left out). All are of one
// kind: images if there are any, else arrays, test data sets, MNIST images, binaries. Other files are counted as skipped.
func (o *opener) openFolder(dir string) ([]source, error) {
	found := map[kind][]string{}
	total := 0
	var walk func(sub string, depth int) error
	walk = func(sub string, depth int) error {
		if depth > maxFolderDepth {
			return fmt.Errorf("folders are nested more than %d deep", maxFolderDepth)
		}
		entries, err := o.fs.readDir(path.Join(dir, sub))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(sub, e.Name())
			info, err := o.fs.stat(path.Join(dir, name)) // follows symbolic links, unlike the entry
			switch {
			case err != nil:
				return &graph.FileError{File: name, Err: err}
			case info.IsDir() && strings.HasPrefix(e.Name(), "."):
			case info.IsDir():
				err = walk(name, depth+1)
			case info.Mode().IsRegular():
				var k kind
				if k, err = o.classify(path.Join(dir, name)); err != nil {
					err = &graph.FileError{File: name, Err: err}
				}
				found[k] = append(found[k], name)
				total++
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk("", 0); err != nil {
		return nil, err
	}
	if l := found[kindFakeImage]; l != nil {
		return o.openFiles(kindFakeImage, dir, l)
	}
	for _, k := range []kind{kindImage, kindArray, kindProto, kindIdxImages, kindBinary, kindText, kindWave} {
		names := found[k]
		if names == nil {
			continue
		}
		slices.Sort(names)
		o.skip(found, k)
		return o.openFiles(k, dir, names)
	}
	if total == 0 {
		return nil, errors.New("the folder is empty")
	}
	return nil, fmt.Errorf("no image or other sample among the files in the folder (%d)", total)
}

// skip counts the files of all other kinds.
func (o *opener) skip(found map[kind][]string, taken kind) {
	var names []string
	for k, l := range found {
		if k != taken && !(taken == kindIdxImages && k == kindIdxLabels) {
			for _, name := range l {
				if o.labels == "" || path.Base(name) != path.Base(o.labels) {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) > 0 {
		first := slices.Min(names)
		if o.skipped == 0 || first < o.firstSkipped {
			o.firstSkipped = first
		}
		o.skipped += len(names)
	}
}

func (o *opener) classify(file string) (kind, error) {
	head, err := o.fs.readHead(file, 512)
	if err != nil {
		return kindOther, err
	}
	ext := strings.ToLower(path.Ext(file))
	base := path.Base(file)
	switch {
	case imaging.Sniff(head) != "":
		return kindImage, nil
	case slices.Contains(imageExtensions, ext):
		return kindFakeImage, nil
	case len(head) > 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WAVE":
		return kindWave, nil
	case bytes.HasPrefix(head, []byte("\x93NUMPY")), ext == ".npy", ext == ".npz":
		return kindArray, nil
	case ext == ".pb":
		if strings.HasPrefix(base, "input_") {
			return kindProto, nil
		}
		return kindOther, nil
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		if z, err := gzip.NewReader(bytes.NewReader(head)); err == nil {
			var inner [4]byte
			if _, err := io.ReadFull(z, inner[:]); err == nil {
				return idxKind(inner[:]), nil
			}
		}
		return kindOther, nil
	}
	if k := idxKind(head); k != kindOther && !slices.Contains(binaryExtensions, ext) {
		return k, nil
	}
	if slices.Contains(binaryExtensions, ext) {
		return kindBinary, nil
	}
	if ext == ".txt" && o.text != nil {
		return kindText, nil
	}
	return kindOther, nil
}

// one wraps a single source.
func one(s source, err error) ([]source, error) {
	if err != nil {
		return nil, err
	}
	return []source{s}, nil
}
