// Pictures wider than the page begin at their middle, and printing opens what is folded.
(function () {
  'use strict';
  function centre(root) {
    root.querySelectorAll('figure .scroll').forEach(function (box) {
      if (box.scrollLeft === 0) box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
    });
  }
  centre(document);
  var folded = document.querySelectorAll('details');
  folded.forEach(function (d) { d.addEventListener('toggle', function () { centre(d); }); });
  window.addEventListener('beforeprint', function () {
    document.documentElement.setAttribute('data-print', '');
    folded.forEach(function (d) { d.dataset.was = d.open ? '1' : ''; d.open = true; });
  });
  window.addEventListener('afterprint', function () {
    document.documentElement.removeAttribute('data-print');
    folded.forEach(function (d) { d.open = d.dataset.was === '1'; });
  });
})();
