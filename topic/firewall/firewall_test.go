package firewall

import (
	"testing"

	"headroom/testkit"
)

func TestStories(t *testing.T) { testkit.Stories(t, Topic) }
