package network

import (
	"testing"

	"headroom/testkit"
)

func TestSamples(t *testing.T) { testkit.Samples(t, Topic) }
