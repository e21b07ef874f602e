// Calls addresses with go-retryablehttp as it is by default.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"

	retryable "github.com/hashicorp/go-retryablehttp"
)

func call(url string) int {
	client := retryable.NewClient()
	client.Logger = nil
	response, err := client.Get(url)
	if err != nil {
		return http.StatusTooManyRequests
	}
	return response.StatusCode
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		go func(url string) { fmt.Println(url, call(url)) }(lines.Text())
	}
}
