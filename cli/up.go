package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"headroom/fail"
	"headroom/host"
	"headroom/unit"
	"headroom/watch"
)

// upConfig is the table [up] of config.toml; a flag wins over it.
type upConfig struct {
	Listen       string   `toml:"listen"`
	Cert         string   `toml:"tls-cert"`
	Key          string   `toml:"tls-key"`
	Hosts        []string `toml:"hosts"`
	Store        string   `toml:"store"`
	Retention    string   `toml:"retention"`
	Queue        string   `toml:"queue"` // size: "2GiB"
	NATS         string   `toml:"nats"`
	NATSCreds    string   `toml:"nats-creds"`
	Servers      []string `toml:"watch"`
	AllowChanges bool     `toml:"allow-changes"`
	To           string   `toml:"to"` // agent
	TokenFile    string   `toml:"token-file"`
	CA           string   `toml:"ca"`
}

func (a *app) up() *cobra.Command {
	var f upConfig
	var quietCollect bool
	c := &cobra.Command{
		Use:   "up",
		Short: "Watch this machine: collect, store, and show it on a page of 127.0.0.1",
		Long: `Finds what runs here (kernel, disks, network, PostgreSQL, PgBouncer, nginx, RAID),
reads it every 10 seconds, keeps it in a queue that survives kills and power
cuts, stores it in PostgreSQL (a private server below the state folder, or
--store), and serves a page on 127.0.0.1:8420. The login link is printed once;
"headroom up link" makes another. It looks only: nothing is changed on the
machine or its servers unless you say --allow-changes and confirm a plan.

Other machines send with "headroom agent --to URL". To let them, and you, in
from outside, name an address with --listen and a certificate; without TLS
nothing but loopback is listened on.

Ctrl-C stops it cleanly; the next start goes on where it was.

Exit status: 0 stopped; 1 error; 2 usage; 5 another one runs.`,
		Example: `  headroom up
  headroom up --store 'host=db1 dbname=headroom' --retention 1m:14d,1h:2y,1d:forever
  headroom up --listen 10.0.0.5:8420 --tls-cert cert.pem --tls-key key.pem
  headroom up link`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			a.warnOfPasswords(append(f.Servers, f.Store)...)
			return a.runUp(c.Context(), f.over(c, a.config.Up), quietCollect)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Listen, "listen", "", "address of the page and of what agents send to; off loopback it needs --tls-cert (default 127.0.0.1:8420)")
	fl.StringVar(&f.Cert, "tls-cert", "", "certificate file, PEM")
	fl.StringVar(&f.Key, "tls-key", "", "its key file, PEM")
	fl.StringSliceVar(&f.Hosts, "name", nil, "name under which the page may be asked for, besides localhost and the address")
	fl.StringVar(&f.Store, "store", "", "PostgreSQL database to store in, as libpq takes it; default: a private server")
	fl.StringVar(&f.Retention, "retention", "", "how long what is kept (default raw:2d,1m:14d,1h:2y,1d:forever)")
	fl.StringVar(&f.Queue, "queue", "", "most that waits on disk while the store is away, e.g. 2GiB")
	fl.StringVar(&f.NATS, "nats", "", "URL of a NATS cluster with JetStream to queue in, instead of on this machine")
	fl.StringVar(&f.NATSCreds, "nats-creds", "", "credentials file for --nats")
	fl.StringArrayVar(&f.Servers, "db", nil, "PostgreSQL server to watch besides those found, as libpq takes it; several times for several")
	fl.BoolVar(&f.AllowChanges, "allow-changes", false, "let the page apply a plan, after its name was typed")
	fl.BoolVar(&quietCollect, "no-collect", false, "do not watch this machine; only take what agents send")
	c.AddCommand(a.upLink(), a.upToken(), a.upDead(), a.upHost())
	return c
}

// over lays the flags that were given over the configuration.
func (f upConfig) over(c *cobra.Command, file upConfig) upConfig {
	out := file
	set := func(flag string, to, from *string) {
		if c.Flags().Changed(flag) {
			*to = *from
		}
	}
	set("listen", &out.Listen, &f.Listen)
	set("tls-cert", &out.Cert, &f.Cert)
	set("tls-key", &out.Key, &f.Key)
	set("store", &out.Store, &f.Store)
	set("retention", &out.Retention, &f.Retention)
	set("queue", &out.Queue, &f.Queue)
	set("nats", &out.NATS, &f.NATS)
	set("nats-creds", &out.NATSCreds, &f.NATSCreds)
	set("to", &out.To, &f.To)
	set("token-file", &out.TokenFile, &f.TokenFile)
	set("ca", &out.CA, &f.CA)
	if c.Flags().Changed("name") {
		out.Hosts = f.Hosts
	}
	if c.Flags().Changed("db") {
		out.Servers = f.Servers
	}
	if c.Flags().Changed("allow-changes") {
		out.AllowChanges = f.AllowChanges
	}
	return out
}

// queueBytes reads a size such as 2GiB; 0 if none was given.
func queueBytes(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	v, u, err := unit.Parse(text)
	if err == nil && u != unit.Byte {
		err = errors.New("not a size")
	}
	if err == nil && v < 16<<20 {
		err = errors.New("too small: 16 MiB at least")
	}
	if err != nil {
		return 0, fail.With(fail.Hint(fmt.Errorf("read --queue %q: %w", text, err), "e.g. --queue 2GiB"), fail.Usage)
	}
	return int64(v), nil
}

func (a *app) runUp(ctx context.Context, f upConfig, noCollect bool) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	size, err := queueBytes(f.Queue)
	if err != nil {
		return err
	}
	return watch.Run(ctx, watch.Options{
		Dirs: dirs, Version: version,
		Listen: f.Listen, Cert: f.Cert, Key: f.Key, Hosts: f.Hosts, AllowChanges: f.AllowChanges,
		Store: f.Store, Retention: f.Retention, QueueBytes: size, NATS: f.NATS, NATSCreds: f.NATSCreds,
		Servers: f.Servers, NoCollect: noCollect,
		Say: a.say,
		Ready: func(link string) {
			fmt.Fprintf(a.out, "Headroom watches this machine. Open, once and within 15 minutes:\n\n  %s\n\nAnother link: headroom up link. Stop with Ctrl-C.\n", link)
		},
	})
}

// warnOfPasswords tells of passwords on the command line: what runs for months
// shows them for months.
func (a *app) warnOfPasswords(dsns ...string) {
	for _, dsn := range dsns {
		u, err := url.Parse(dsn)
		inURL := false
		if err == nil {
			_, inURL = u.User.Password()
		}
		if inURL || passwordWord.MatchString(dsn) {
			a.say("note: a password on the command line is seen by every user of this machine; ~/.pgpass or config.toml keeps it to yourself")
			return
		}
	}
}

var passwordWord = regexp.MustCompile(`(^|[\s?&])password\s*=`)

// say writes one line of what happens, with the time, to standard error.
func (a *app) say(text string) {
	fmt.Fprintln(a.err, time.Now().Format("15:04:05 ")+text)
}

func (a *app) upLink() *cobra.Command {
	return &cobra.Command{
		Use:     "link",
		Short:   "Print a new login link for the page; good once, for 15 minutes",
		Example: "  headroom up link",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dirs, err := host.OwnDirs()
			if err != nil {
				return err
			}
			link, err := watch.Link(dirs)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, link)
			return nil
		},
	}
}

func (a *app) agent() *cobra.Command {
	var f upConfig
	c := &cobra.Command{
		Use:   "agent --to URL",
		Short: "Watch this machine and send what is read to another Headroom",
		Long: `Reads what "headroom up" reads and sends it to the one at URL, from a queue that
survives kills, power cuts and hours without the other. It puts the same checks
and tells what they found, what cannot be read and, while somebody looks at this
host over there, what runs on its servers; it changes nothing. It serves no page and
needs no PostgreSQL. The token is one of scope write, made over there with
"headroom up token create NAME --scope write", and is read from a file or from
HEADROOM_TOKEN, never from the command line.

Exit status: 0 stopped; 1 error; 2 usage; 5 another one runs.`,
		Example: `  headroom agent --to https://watch.example:8420 --token-file /etc/headroom/token
  headroom agent --to https://10.0.0.5:8420 --ca ca.pem`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			a.warnOfPasswords(f.Servers...)
			return a.runAgent(c.Context(), f.over(c, a.config.Up))
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.To, "to", "", "the other Headroom: https://HOST:PORT; plain http only to this machine itself")
	fl.StringVar(&f.TokenFile, "token-file", "", "file with the token; default: HEADROOM_TOKEN")
	fl.StringVar(&f.CA, "ca", "", "certificates to trust besides the system's, PEM")
	fl.StringVar(&f.Queue, "queue", "", "most that waits on disk while the other is away, e.g. 512MiB")
	fl.StringArrayVar(&f.Servers, "db", nil, "PostgreSQL server to watch besides those found, as libpq takes it")
	return c
}

func (a *app) runAgent(ctx context.Context, f upConfig) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	size, err := queueBytes(f.Queue)
	if err != nil {
		return err
	}
	if f.To == "" {
		return fail.With(fail.Hint(errors.New("send: no address given"), "write: headroom agent --to https://HOST:8420"), fail.Usage)
	}
	return watch.Agent(ctx, watch.AgentOptions{
		Dirs: dirs, Version: version, To: f.To, CA: f.CA, TokenFile: f.TokenFile, Token: os.Getenv("HEADROOM_TOKEN"),
		QueueBytes: size, Servers: f.Servers, Say: a.say,
	})
}
