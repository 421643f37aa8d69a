package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// box is a rectangle of an object, in the pixels of the picture as the network sees it.
type box struct {
	x1, y1, x2, y2 float64
	class          int64
	score          float64 // of a detection
	apart          bool    // of a label: a crowd, or difficult: finding it is neither right nor wrong
}

// boxRule is how detections are matched with labels and counted.
type boxRule struct {
	thresholds []float64 // of intersection over union, at most 16
	most       int       // detections of a class in a picture that count; 0: all
	// match marks which of the detections, which stand by falling score, find a label at a threshold, and which are left out. The labels that
	// are apart stand last.
	match func(found, labels []box, threshold float64, hit, out []bool)
	// area is the average precision of detections by falling score: how many of all labels are found by the first ones (recall), and
	// which share of those is right (precision).
	area func(recall, precision []float64) float64
}

// picture is the record of a sample with boxes.
type picture struct {
	ID      int64 // of the picture in the labels; 0 without
	Name    string
	Classes []classBoxes // by class
}

// classBoxes are the detections of a class in a picture, by falling score, and how many labels there are to find.
type classBoxes struct {
	Class  int64
	Labels int
	Scores []float64
	Hit    []uint16 // a bit for each threshold
	Out    []uint16
}

// boxMetric is a mean average precision.
func boxMetric(name, doc string, rule boxRule) *Metric {
	return &Metric{Name: name, Doc: doc + "; labels: COCO's JSON of instances", Percent: true, Open: func(l Labels) (Scorer, error) {
		s := &boxScorer{rule: rule}
		if l.Float {
			return s, nil
		}
		src, err := readLabels(l)
		if err == nil {
			if s.labels, err = parseInstances(src); err != nil {
				err = fmt.Errorf("labels %s: %w", l.Path, err)
			}
		}
		return s, err
	}}
}

type boxScorer struct {
	rule   boxRule
	labels map[string]*instances // nil: float's detections are the labels
}

// instances are the labels of a picture.
type instances struct {
	id    int64
	boxes []box
}

// sureScore is what a detection of the float network needs to be taken for right.
const sureScore = 0.5

func (b *boxScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	found, err := detections(outputs)
	if err != nil {
		return nil, err
	}
	right := &instances{}
	if b.labels == nil {
		if right.boxes, err = detections(s.Float); err != nil {
			return nil, err
		}
		right.boxes = slices.DeleteFunc(right.boxes, func(d box) bool { return d.score < sureScore })
	} else if right = b.labels[s.Name]; right == nil {
		if right = b.labels[path.Base(s.Name)]; right == nil {
			return nil, errors.New("the labels have no picture with the name of this sample")
		}
	}
	return b.rule.judge(right, found, s.Name), nil
}

// judge matches the detections of a picture.
func (r *boxRule) judge(right *instances, found []box, name string) *picture {
	p := &picture{ID: right.id, Name: name}
	byClass := func(list []box, class int64) (out []box) {
		for _, b := range list {
			if b.class == class {
				out = append(out, b)
			}
		}
		return out
	}
	var classes []int64
	for _, b := range slices.Concat(right.boxes, found) {
		classes = append(classes, b.class)
	}
	slices.Sort(classes)
	for _, class := range slices.Compact(classes) {
		labels, dets := byClass(right.boxes, class), byClass(found, class)
		arrange.Stable(labels, func(a, b box) int { return order(a.apart, b.apart) })
		sortBoxes(dets)
		if r.most > 0 && len(dets) > r.most {
			dets = dets[:r.most]
		}
		c := classBoxes{Class: class, Hit: make([]uint16, len(dets)), Out: make([]uint16, len(dets))}
		for _, l := range labels {
			if !l.apart {
				c.Labels++
			}
		}
		for t, threshold := range r.thresholds {
			hit, out := make([]bool, len(dets)), make([]bool, len(dets))
			r.match(dets, labels, threshold, hit, out)
			for i := range dets {
				if hit[i] {
					c.Hit[i] |= 1 << t
				}
				if out[i] {
					c.Out[i] |= 1 << t
				}
			}
		}
		for _, d := range dets {
			c.Scores = append(c.Scores, d.score)
		}
		p.Classes = append(p.Classes, c)
	}
	return p
}

// sortBoxes puts detections by falling score, equal ones as they stood.
func sortBoxes(list []box) {
	arrange.Stable(list, func(a, b box) int { return cmp.Compare(b.score, a.score) })
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (b *boxScorer) Score(records []Record) float64 {
	pictures := make([]*picture, len(records))
	for i, r := range records {
		pictures[i] = r.(*picture)
	}
	arrange.Stable(pictures, func(a, b *picture) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name)) })
	byClass := map[int64][]*classBoxes{}
	var classes []int64
	for _, p := range pictures {
		for k := range p.Classes {
			c := &p.Classes[k]
			if byClass[c.Class] == nil {
				classes = append(classes, c.Class)
			}
			byClass[c.Class] = append(byClass[c.Class], c)
		}
	}
	slices.Sort(classes)
	var sum, n float64
	for _, class := range classes {
		if ap, ok := b.rule.average(byClass[class]); ok {
			sum, n = sum+ap, n+1
		}
	}
	return sum / n
}

// average is the average precision of a class, the mean over the thresholds; ok is false where there is nothing to find.
func (r *boxRule) average(pictures []*classBoxes) (ap float64, ok bool) {
	type detection struct {
		score    float64
		hit, out uint16
	}
	var all []detection
	labels := 0
	for _, p := range pictures {
		labels += p.Labels
		for i, s := range p.Scores {
			all = append(all, detection{s, p.Hit[i], p.Out[i]})
		}
	}
	if labels == 0 {
		return 0, false
	}
	arrange.Stable(all, func(a, b detection) int { return cmp.Compare(b.score, a.score) })
	for t := range r.thresholds {
		var recall, precision []float64
		var right, wrong float64
		for _, d := range all {
			switch bit := uint16(1) << t; {
			case d.out&bit != 0:
			case d.hit&bit != 0:
				right++
			default:
				wrong++
			}
			recall = append(recall, right/float64(labels))
			precision = append(precision, right/max(right+wrong, math.SmallestNonzeroFloat64))
		}
		ap += r.area(recall, precision)
	}
	return ap / float64(len(r.thresholds)), true
}

// detections reads the first output: rows of x1, y1, x2, y2, score and class. Rows with a score of 0 or less fill the output up and are
// left out.
func detections(outputs []*tensor.Tensor) ([]box, error) {
	x, err := floats(outputs, 0)
	if err != nil {
		return nil, err
	}
	shape := outputs[0].Shape
	n := len(shape)
	if n < 2 || shape[n-1] != 6 || tensor.Count(shape[:n-2]) != 1 {
		return nil, fmt.Errorf("the first output is %s; boxes are float32 [N, 6] with rows of x1, y1, x2, y2, score and class", outputs[0].Type())
	}
	var out []box
	for ; len(x) >= 6; x = x[6:] {
		if !(x[4] > 0) {
			continue
		}
		b := box{x1: float64(x[0]), y1: float64(x[1]), x2: float64(x[2]), y2: float64(x[3]), score: float64(x[4]), class: int64(x[5])}
		if float32(b.class) != x[5] {
			return nil, fmt.Errorf("class %g of a box is no whole number", x[5])
		}
		out = append(out, b)
	}
	return out, nil
}

// parseInstances reads COCO's JSON of instances: pictures by the names of their files.
func parseInstances(src []byte) (map[string]*instances, error) {
	var file struct {
		Images []struct {
			ID   *int64 `json:"id"`
			File string `json:"file_name"`
		} `json:"images"`
		Annotations []struct {
			Image     int64     `json:"image_id"`
			Class     *int64    `json:"category_id"`
			Box       []float64 `json:"bbox"`
			Crowd     int       `json:"iscrowd"`
			Difficult int       `json:"difficult"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(src, &file); err != nil {
		return nil, fmt.Errorf("not COCO's JSON of instances: %w", err)
	}
	byID, byName := map[int64]*instances{}, map[string]*instances{}
	for i, p := range file.Images {
		switch {
		case p.ID == nil || p.File == "":
			return nil, fmt.Errorf("images[%d] needs id and file_name", i)
		case byID[*p.ID] != nil || byName[p.File] != nil:
			return nil, fmt.Errorf("images[%d]: %d, %s is there twice", i, *p.ID, p.File)
		}
		byID[*p.ID] = &instances{id: *p.ID}
		byName[p.File] = byID[*p.ID]
	}
	if len(byID) == 0 {
		return nil, errors.New("not COCO's JSON of instances: no images")
	}
	for i, a := range file.Annotations {
		p := byID[a.Image]
		switch {
		case p == nil:
			return nil, fmt.Errorf("annotations[%d]: no image %d", i, a.Image)
		case a.Class == nil || len(a.Box) != 4:
			return nil, fmt.Errorf("annotations[%d] needs category_id, and bbox with four numbers", i)
		}
		p.boxes = append(p.boxes, box{x1: a.Box[0], y1: a.Box[1], x2: a.Box[0] + a.Box[2], y2: a.Box[1] + a.Box[3], class: *a.Class,
			apart: a.Crowd != 0 || a.Difficult != 0})
	}
	return byName, nil
}
