package data

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/imaging"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// colours is a picture whose pixel i is (3i, 3i+1, 3i+2).
func colours(w, h int) *imaging.Image {
	m := imaging.New(w, h, 3)
	for i := range m.Pix {
		m.Pix[i] = uint8(i)
	}
	return m
}

func feed(t *testing.T, in Input, pre plan.Preprocess, m *imaging.Image) *tensor.Tensor {
	t.Helper()
	p, err := newPicture(in, &pre)
	require.NoError(t, err)
	feeds, err := p.feed(m)
	require.NoError(t, err)
	return feeds[in.Name]
}

func TestArithmeticIsFloat32StepByStep(t *testing.T) {
	in := input("x", 1, 3, 1, 2)[0]
	pre := plan.Preprocess{Scale: 1.0 / 255, Mean: plan.Channels{0.485, 0.456, 0.406}, Std: plan.Channels{0.229, 0.224, 0.225}}
	m := colours(2, 1)
	m.Pix[0] = 200
	x := feed(t, in, pre, m)
	// NumPy: (np.float32(200)*np.float32(1/255) - np.float32(.485)) / np.float32(.229), and so on.
	require.Equal(t, []float32{1.3070471, -2.0665298, -2.0182073, -1.9656862, -1.7695861, -1.7172985}, x.F32())
}

func TestChannelOrderAndLayout(t *testing.T) {
	for _, c := range []struct {
		dims  []int
		pre   plan.Preprocess
		shape []int
		want  []float32
	}{
		{[]int{1, 3, 1, 2}, plan.Preprocess{}, []int{1, 3, 1, 2}, []float32{0, 3, 1, 4, 2, 5}},
		{[]int{1, 3, 1, 2}, plan.Preprocess{ChannelOrder: "bgr"}, []int{1, 3, 1, 2}, []float32{2, 5, 1, 4, 0, 3}},
		{[]int{1, 1, 2, 3}, plan.Preprocess{Layout: "nhwc"}, []int{1, 1, 2, 3}, []float32{0, 1, 2, 3, 4, 5}},
		{[]int{-1, -1, -1, 3}, plan.Preprocess{}, []int{1, 1, 2, 3}, []float32{0, 1, 2, 3, 4, 5}},
		{[]int{-1, 3, -1, -1}, plan.Preprocess{}, []int{1, 3, 1, 2}, []float32{0, 3, 1, 4, 2, 5}},
		{[]int{-1, -1, -1, -1}, plan.Preprocess{}, []int{1, 3, 1, 2}, []float32{0, 3, 1, 4, 2, 5}},
		{[]int{3, 1, 2}, plan.Preprocess{}, []int{3, 1, 2}, []float32{0, 3, 1, 4, 2, 5}},
		{[]int{1, 3, 1, 2}, plan.Preprocess{ChannelOrder: "bgr", Mean: plan.Channels{10, 20, 30}}, []int{1, 3, 1, 2},
			[]float32{-8, -5, -19, -16, -30, -27}}, // the mean is in the model's order
		{[]int{1, 3, 1, 2}, plan.Preprocess{Mean: plan.Channels{1}, Std: plan.Channels{2}}, []int{1, 3, 1, 2}, []float32{-.5, 1, 0, 1.5, .5, 2}},
	} {
		x := feed(t, input("x", c.dims...)[0], c.pre, colours(2, 1))
		require.Equal(t, c.shape, x.Shape, "%v", c.dims)
		require.Equal(t, c.want, x.F32(), "%v %+v", c.dims, c.pre)
	}
	nil_ := feed(t, Input{Name: "x", DType: tensor.Float32}, plan.Preprocess{}, colours(2, 1))
	require.Equal(t, []int{1, 3, 1, 2}, nil_.Shape, "unknown rank")
	grey := feed(t, input("x", 1, 1, 1, 2)[0], plan.Preprocess{}, colours(2, 1))
	require.Equal(t, []float32{1, 4}, grey.F32(), "luma")
	three := feed(t, input("x", 1, 3, 1, 1)[0], plan.Preprocess{}, &imaging.Image{W: 1, H: 1, C: 1, Pix: []uint8{9}})
	require.Equal(t, []float32{9, 9, 9}, three.F32(), "a grey picture for a model in colour")
	bytes := feed(t, Input{Name: "x", DType: tensor.Uint8, Shape: graph.Static(1, 1, 2, 3)}, plan.Preprocess{Layout: "nhwc"}, colours(2, 1))
	require.Equal(t, []uint8{0, 1, 2, 3, 4, 5}, bytes.Data)
}

func TestInputsThatTakeNoPictures(t *testing.T) {
	for _, c := range []struct {
		dims []int
		pre  plan.Preprocess
		want string
	}{
		{[]int{2, 3, 4, 4}, plan.Preprocess{}, "fixed batch of 2"},
		{[]int{1, 4, 8, 8}, plan.Preprocess{}, "has 4 channels"},
		{[]int{1, 3, 8, 8}, plan.Preprocess{Layout: "nhwc"}, "has 8 channels"},
		{[]int{1, 640}, plan.Preprocess{}, "takes no pictures"},
		{[]int{2, 784}, plan.Preprocess{}, "takes no pictures"},
		{[]int{1, 3, 8, 8, 8}, plan.Preprocess{}, "takes no pictures"},
		{[]int{1, 1, 8, 8}, plan.Preprocess{Mean: plan.Channels{1, 2, 3}}, "mean has 3 values, the model's input has 1 channels"},
		{[]int{1, 3, 8, 8}, plan.Preprocess{Std: plan.Channels{1, 2}}, "std has 2 values"},
		{[]int{1, 3, 8, 8}, plan.Preprocess{CenterCrop: &plan.Size{8, 9}},
			"leaves pictures of 8x9 (height x width), input x f32[1,3,8,8] takes 8x8"},
		{[]int{1, 3, 8, -1}, plan.Preprocess{Resize: &plan.Resize{Size: &plan.Size{7, 9}}}, "takes 8xany"},
		{[]int{1, 3, 8, 8}, plan.Preprocess{Scale: -1e99}, "preprocessing: scale"},
	} {
		_, err := newPicture(input("x", c.dims...)[0], &c.pre)
		require.ErrorContains(t, err, c.want)
	}
	p, err := newPicture(Input{Name: "x", DType: tensor.Int8, Shape: graph.Static(1, 3, 1, 1)}, nil)
	require.NoError(t, err)
	_, err = p.feed(&imaging.Image{W: 1, H: 1, C: 3, Pix: []uint8{1, 2, 200}})
	require.ErrorContains(t, err, "cannot be fed as i8: element 2 is 200")
	p, err = newPicture(input("x", 1, 3, 8, 8)[0], &plan.Preprocess{CenterCrop: &plan.Size{8, 8}})
	require.NoError(t, err)
	_, err = p.feed(colours(7, 9))
	require.ErrorContains(t, err, "a crop of 8x8 (height x width) out of an image of 9x7")
	p, err = newPicture(input("x", -1, 3, -1, -1)[0], &plan.Preprocess{Resize: &plan.Resize{Shorter: 1000}})
	require.NoError(t, err)
	_, err = p.feed(colours(1, 40))
	require.ErrorContains(t, err, "resizing 40x1 gives 40000x1000")
}

func TestShorterSide(t *testing.T) {
	r := plan.Resize{Shorter: 256}
	for _, c := range [][4]int{{288, 384, 256, 341}, {384, 288, 341, 256}, {512, 681, 256, 340}, {512, 683, 256, 342}, {100, 100, 256, 256}} {
		h, w := resized(c[0], c[1], r) // 340.5 and 341.5 go to the even number
		require.Equal(t, [2]int{c[2], c[3]}, [2]int{h, w}, "%v", c)
	}
}

func TestPreprocessingByName(t *testing.T) {
	f := tree{"p.yaml": []byte("scale: 2\n"), "bad.yaml": []byte("scale: 1\nmeen: 2\n")}.open()
	p, err := Preprocessing("imagenet-torch", input("x", -1, 3, 96, 96), f)
	require.NoError(t, err)
	require.Equal(t, plan.Size{96, 96}, *p.CenterCrop)
	require.Equal(t, 110, p.Resize.Shorter)
	p, err = Preprocessing("imagenet-caffe", input("x", -1, 3, -1, -1), f)
	require.NoError(t, err)
	require.Equal(t, plan.Size{224, 224}, *p.CenterCrop)
	p, err = Preprocessing("p.yaml", nil, f)
	require.NoError(t, err)
	require.Equal(t, plan.Preprocess{Scale: 2}, p)
	_, err = Preprocessing("bad.yaml", nil, f)
	require.EqualError(t, err, `bad.yaml:2: unknown key "meen"`)
	_, err = Preprocessing("imagenet", nil, f)
	require.ErrorContains(t, err, `unknown preprocessing "imagenet" (known: imagenet-caffe`)
	_, err = Preprocessing("none.yaml", nil, f)
	require.ErrorContains(t, err, "preprocessing none.yaml: file does not exist")
}

// What an export is told of pixels is what calibration computes.
func TestPixels(t *testing.T) {
	torch, err := plan.Preset("imagenet-torch", 2)
	require.NoError(t, err)
	for _, c := range []struct {
		dims []int
		pre  plan.Preprocess
		axis int
		want string
	}{
		{dims: []int{1, 3, 2, 2}, pre: torch, axis: 1}, {dims: []int{1, 2, 2, 3}, pre: torch, axis: 3},
		{dims: []int{3, 2, 2}, pre: torch, axis: 0},
		{dims: []int{1, 1, 2, 2}, pre: plan.Preprocess{Scale: 1.0 / 255, Mean: plan.Channels{0.5}}, axis: -1},
		{dims: []int{1, 12}, pre: plan.Preprocess{Scale: 2}, axis: -1},
		{dims: []int{1, 12}, pre: plan.Preprocess{Mean: plan.Channels{1, 2, 3}}, want: "has no axis for the channels"},
		{dims: []int{1, 5, 2, 2}, want: "has 5 channels"},
	} {
		spec := input("x", c.dims...)
		p, err := spec.Pixels(&c.pre)
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.axis, p.Axis, "%v", c.dims)
		of, err := newPicture(spec[0], &c.pre)
		require.NoError(t, err)
		for ch := range of.c {
			for v := range 256 {
				require.Equal(t, of.table[ch][v], p.Of(uint8(v), ch))
			}
		}
	}
	_, err = append(input("x", 1, 3, 2, 2), input("y", 1)...).Pixels(&torch)
	require.ErrorContains(t, err, "pictures feed models with one input")
}
