package report

import (
	"math"
	"strconv"
)

// canvas is a picture that keeps its letters readable at any width: x is in
// percent of the width, y in pixels. The page's template writes it as SVG, so
// that its texts are escaped like all others.
type canvas struct {
	Title, Desc string
	Note        string // how to read it, below
	Height      int
	Shapes      []shape
	Legend      []legend
}

// shape is a line, rect, point (a path around its place) or text.
type shape struct {
	Kind, Class string
	X, Y        string
	X2, Y2      string // the other end; of a rect: width and height
	Text        string // of a point: the path
}

type legend struct{ Class, Path, Text string }

// The points: one form for each arm, so that colour is not needed to tell them apart.
var points = []string{
	"M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", "M-4.5-4.5h9v9h-9z", "M0-6L6 5H-6z", "M0-6L6 0L0 6L-6 0z", "M0 6L6-5H-6z",
	"M-6-2h4v-4h4v4h4v4h-4v4h-4v-4h-4z",
}

const (
	smallPoint = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"
	ringPoint  = "M-8 0a8 8 0 1 0 16 0a8 8 0 1 0 -16 0z"
)

func armPoint(arm int) string { return points[arm%len(points)] }

func armClass(arm int) string { return "c" + strconv.Itoa(arm%6) }

// px writes a coordinate short.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

func (c *canvas) line(class string, x, y, x2, y2 float64) {
	c.Shapes = append(c.Shapes, shape{Kind: "line", Class: class, X: px(x), Y: px(y), X2: px(x2), Y2: px(y2)})
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	c.Shapes = append(c.Shapes, shape{Kind: "rect", Class: class, X: px(x), Y: px(y), X2: px(max(w, 0)), Y2: px(h)})
}

func (c *canvas) point(class, path string, x, y float64) {
	c.Shapes = append(c.Shapes, shape{Kind: "point", Class: class, X: px(x), Y: px(y), Text: path})
}

func (c *canvas) text(class string, x, y float64, s string) {
	c.Shapes = append(c.Shapes, shape{Kind: "text", Class: class, X: px(x), Y: px(y), Text: s})
}

// scale maps a range of figures to a range of the canvas.
type scale struct {
	lo, hi float64 // figures
	a, b   float64 // canvas
	log    bool
}

// at is where a figure lies; what is out of range lies at the edge.
func (s scale) at(v float64) float64 {
	v = min(max(v, s.lo), s.hi)
	if s.hi == s.lo {
		return (s.a + s.b) / 2
	}
	if s.log {
		return s.a + (s.b-s.a)*math.Log(v/s.lo)/math.Log(s.hi/s.lo)
	}
	return s.a + (s.b-s.a)*(v-s.lo)/(s.hi-s.lo)
}

// ticks are round figures inside the range, about n of them.
func (s scale) ticks(n int) []float64 {
	if s.log && s.hi/s.lo > 30 {
		return decades(s.lo, s.hi)
	}
	step := nice((s.hi - s.lo) / float64(n))
	if step <= 0 {
		return []float64{s.lo}
	}
	var out []float64
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi*(1+1e-9); i++ {
		out = append(out, i*step)
	}
	return out
}

func nice(step float64) float64 {
	if !(step > 0) {
		return 0
	}
	p := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if m*p >= step*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

func decades(lo, hi float64) []float64 {
	var out []float64
	for e := math.Ceil(math.Log10(lo) - 1e-9); e <= math.Log10(hi)+1e-9; e++ {
		out = append(out, math.Pow(10, e))
	}
	return out
}

// around widens a range a little, so that its ends can be seen.
func around(lo, hi float64) (float64, float64) {
	if lo == hi {
		return lo * 0.95, hi*1.05 + 1e-9
	}
	by := (hi - lo) * 0.06
	return lo - by, hi + by
}

// picture is the block for a canvas; nothing for nil.
func picture(c *canvas) block {
	if c == nil {
		return figure{}
	}
	return figure{canvas: c}
}
