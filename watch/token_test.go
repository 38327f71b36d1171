package watch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
	"headroom/web/auth"
)

// TestAgentTakesUpANewToken: an agent whose token was revoked says so, with the
// way out; a file without a token is told as that; and with a new token in its
// file it goes on at once, not after the pause that it made.
func TestAgentTakesUpANewToken(t *testing.T) {
	s := startSite(t, Options{NoCollect: true})
	tokens, err := Tokens(s.dirs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	give := func(name string) {
		t.Helper()
		secret, err := tokens.Create(name, auth.Write)
		if err == nil {
			err = os.WriteFile(file, []byte(secret+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	give("web1")
	heard := &site{t: t} // what the agent says
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Agent(ctx, AgentOptions{Dirs: testDirs(t), To: s.url + "/", TokenFile: file, Say: heard.say})
	}()
	s.until("the agent's samples", 60*time.Second, func() bool { return s.points("host_cpu_seconds_total") > 0 })
	for _, name := range []string{"web2", "web3"} {
		heard.mu.Lock()
		heard.said = nil
		heard.mu.Unlock()
		if err := tokens.Revoke(map[string]string{"web2": "web1", "web3": "web2"}[name]); err != nil {
			t.Fatal(err)
		}
		if name == "web3" {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.until("the agent says that the file is empty", 60*time.Second, func() bool { return heard.heard("holds 0 words and not one token") })
		} else {
			s.until("the agent says that it was refused", 60*time.Second, func() bool {
				return heard.heard("401") && heard.heard("make a token that may write on the other machine")
			})
		}
		before := s.points("host_cpu_seconds_total")
		give(name)
		need.Eventually(t, 20*time.Second, "it goes on with "+name, func() bool { return heard.heard("sending again, after") })
		s.until("samples with it", 30*time.Second, func() bool { return s.points("host_cpu_seconds_total") > before })
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the agent ended with: %v", err)
	}
	if strings.Contains(strings.Join(heard.said, "\n"), "hr_") {
		t.Errorf("a token is told: %q", heard.said)
	}
}
