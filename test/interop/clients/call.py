"""Calls addresses with the library that is its argument; `version` prints what there is."""

import sys
import threading

import requests
import urllib3
from requests.adapters import HTTPAdapter


def by_urllib3(url):
    return urllib3.PoolManager().request('GET', url).status


def by_requests(url):
    with requests.Session() as client:
        client.mount('http://', HTTPAdapter(max_retries=urllib3.Retry(3, status_forcelist=[429, 503])))
        return client.get(url).status_code


def answer(call, url):
    try:
        status = call(url)
    except (requests.RequestException, urllib3.exceptions.HTTPError):
        status = 429
    sys.stdout.write(f'{url} {status}\n')
    sys.stdout.flush()


if sys.argv[1] == 'version':
    print(sys.executable, urllib3.__version__, requests.__version__)
else:
    call = by_urllib3 if sys.argv[1] == 'urllib3' else by_requests
    for line in sys.stdin:
        threading.Thread(target=answer, args=(call, line.strip()), daemon=True).start()
