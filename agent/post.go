package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"headroom/fail"
	"headroom/queue"
)

// shipPath and shipType are where and as what batches are sent: frames of an
// unsigned varint length and that many bytes, each an encoded batch.
const (
	shipPath = "/api/v1/ingest/batch"
	shipType = "application/vnd.headroom.batch"
)

// poster sends requests to one Headroom.
type poster struct {
	url    string // without the path of a request
	client *http.Client
}

// CheckURL says, as an error of usage, why nothing can be sent to an address.
// It never repeats a password.
func CheckURL(raw string) error {
	_, err := readURL(raw)
	return err
}

func readURL(raw string) (*url.URL, error) {
	wrong := func(hint, why string) (*url.URL, error) {
		return nil, fail.With(fail.Hint(errors.New("read the address to send to: "+why), "%s", hint), fail.Usage)
	}
	const form = "write it as: --to https://HOST:8420"
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return wrong(form, "it is not of the form https://HOST:PORT")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return wrong(form, "its port is not a number from 1 to 65535")
	}
	switch {
	case u.User != nil:
		return wrong("put the token into a file and name it with --token-file, or into HEADROOM_TOKEN; write the address without what stands before @", "it holds a user or a password, which are not sent")
	case u.RawQuery != "" || u.ForceQuery:
		return wrong("leave out ? and what follows; "+form, "it holds a query string, which is not sent")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return wrong("leave out # and what follows; "+form, "it holds a fragment, which is not sent")
	case u.Path != "" && u.Path != "/":
		return wrong("leave out the path: the agent knows it; "+form, "it holds a path")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return wrong("use https://"+u.Host+", with --ca FILE if its certificate is your own", "plain HTTP to "+u.Host+" would show the token to whoever listens on the way")
	}
	return u, nil
}

func newPoster(raw, ca string) (poster, error) {
	u, err := readURL(raw)
	if err != nil {
		return poster{}, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		if conf.RootCAs, err = trusted(ca); err != nil {
			return poster{}, err
		}
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig, tr.MaxIdleConnsPerHost, tr.ResponseHeaderTimeout = conf, 1, 30*time.Second
	return poster{url: u.Scheme + "://" + u.Host, client: &http.Client{
		Transport: tr, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// trusted are the system's certificates and those of a file.
func trusted(file string) (*x509.CertPool, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read certificates: %s holds none in PEM form", file)
	}
	return pool, nil
}

// answer is what came of one request.
type answer struct {
	stored  bool // on the other's disk
	refused bool // for good
	why     string
	hint    string
	status  int
	look    *Look         // somebody looks at this host
	pause   time.Duration // that the other asked for
	long    bool          // nothing changes soon: a person must act
}

func (p *poster) send(ctx context.Context, token string, msgs []queue.Message) answer {
	var body bytes.Buffer
	for _, m := range msgs {
		body.Write(binary.AppendUvarint(nil, uint64(len(m.Data()))))
		body.Write(m.Data())
	}
	return p.post(ctx, token, shipPath, shipType, &body)
}

func (p *poster) post(ctx context.Context, token, path, kind string, body io.Reader) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, body)
	if err != nil {
		return answer{why: err.Error()}
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "headroom-agent")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // a broken answer counts by its status
	a := read(res, text)
	a.status = res.StatusCode
	return a
}

func unreachable(err error) answer {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = fmt.Errorf("send to %s: %w", ue.URL, ue.Err)
	}
	var unknown x509.UnknownAuthorityError
	a := answer{why: err.Error()}
	if errors.As(err, &unknown) {
		a.hint = "give the certificate that signed the other's with --ca FILE"
	}
	return a
}

// read judges an answer. Only Headroom itself refuses a batch for good: a
// proxy's page in between says nothing about the batch.
func read(res *http.Response, text []byte) answer {
	var said struct {
		Error string `json:"error"`
		Hint  string `json:"hint"`
		Look  *Look  `json:"look"`
	}
	ours := json.Unmarshal(text, &said) == nil && said.Error != ""
	why := fmt.Sprintf("the server answers %s", res.Status)
	if ours {
		why += ": " + said.Error
	}
	switch c := res.StatusCode; {
	case c/100 == 2:
		return answer{stored: true, look: said.Look}
	case ours && (c == http.StatusBadRequest || c == http.StatusRequestEntityTooLarge || c == http.StatusUnprocessableEntity):
		return answer{refused: true, why: why}
	case c == http.StatusUnauthorized || c == http.StatusForbidden:
		return answer{why: why, hint: "make a token that may write on the other machine, and put it into the token file here", long: true}
	case c == http.StatusTooManyRequests || c/100 == 5 || c == http.StatusRequestTimeout:
		return answer{why: why, hint: said.Hint, pause: after(res.Header.Get("Retry-After"))}
	}
	return answer{why: why, hint: "is this the address of a Headroom, and of a version that takes batches?", long: true}
}

// after reads Retry-After in seconds, at most five minutes.
func after(s string) time.Duration {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, 5*time.Minute)
}
